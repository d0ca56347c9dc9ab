"""Graphs (``tvm.relax``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from tvmconv.tvm_api.types.expressions import Tensor
from tvmconv.tvm_api.types.functions import Function, GlobalVar, IRModule


class RelaxExpr(Protocol):
    """An expression of Relax, mostly a tensor or a tuple of them (``tvm.ir.Expr``)."""

    @property
    def ty(self) -> Any:
        """Its type: ``TensorType`` with ``shape`` and ``dtype``, ``TupleType`` with ``fields``."""


class RelaxVar(RelaxExpr, Protocol):
    """A variable of Relax (``tvm.relax.Var``)."""

    @property
    def name(self) -> str:
        """Its name."""


class Binding(Protocol):
    """A variable and the expression that it stands for (``tvm.relax.VarBinding``)."""

    @property
    def var(self) -> RelaxVar:
        """The variable."""

    @property
    def value(self) -> Any:
        """The expression; its fields depend on its class."""


class BindingBlock(Protocol):
    """Straight-line bindings (``tvm.relax.DataflowBlock``)."""

    @property
    def bindings(self) -> Sequence[Binding]:
        """In order."""


class BlockBuilder(Protocol):
    """Writes the body of a Relax function (``tvm.relax.BlockBuilder``)."""

    def function(
        self,
        name: str,
        params: Sequence[RelaxVar],
        attrs: Mapping[str, str] | None = None,
    ) -> AbstractContextManager[None]:
        """The scope of a function."""

    def emit_func_output(self, output: RelaxExpr) -> None:
        """End a function with its result."""

    def emit(self, expr: RelaxExpr, name_hint: str = "") -> RelaxVar:
        """Bind an expression to a new variable."""

    def emit_output(self, output: RelaxExpr, name_hint: str = "") -> RelaxVar:
        """Bind a result of a dataflow block."""

    def emit_normalized(self, binding: Binding) -> None:
        """Append a binding as it is."""

    def normalize(self, expr: RelaxExpr) -> RelaxExpr:
        """The expression with its type worked out."""

    def call_te(
        self,
        func: Callable[..., Tensor | list[Tensor]],
        *args: RelaxExpr,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, object] | None = None,
    ) -> RelaxExpr:
        """A call of a tensor expression, whose function is added to the module."""

    def add_func(self, func: Function, func_name: str) -> GlobalVar:
        """Add a function under a name that no other has."""

    def update_func(self, gv: GlobalVar, updated_func: Function) -> None:
        """Replace a function."""

    def get(self) -> IRModule:
        """The module so far."""

    def finalize(self) -> IRModule:
        """The module, its names and functions made final."""
