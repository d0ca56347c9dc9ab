"""Statements, functions and modules (``tvm.tirx``, ``tvm.ir``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from tvmconv.tvm_api.types.expressions import Expr


class Stmt(Protocol):
    """A statement of the loop IR (``tvm.tirx.Stmt``)."""

    def same_as(self, other: object) -> bool:
        """Whether both are one node."""


class For(Stmt, Protocol):
    """A loop (``tvm.tirx.For``)."""

    @property
    def loop_var(self) -> Expr:
        """The index."""

    @property
    def extent(self) -> Any:
        """Iterations: ``IntImm``, or an expression where symbolic."""

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Marks for passes."""


class SBlock(Stmt, Protocol):
    """A block: the unit that a schedule moves (``tvm.s_tir.SBlock``)."""

    @property
    def name_hint(self) -> str:
        """The name by which schedules find it."""

    @property
    def iter_vars(self) -> Sequence[Any]:
        """Its axes, with ``var``, ``dom`` and ``iter_type``."""

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Attributes of the tensor expression (``attrs``), and attributes of schedules."""

    @property
    def body(self) -> Any:
        """The statement."""

    @property
    def reads(self) -> Sequence[Any]:
        """Regions of buffers that it reads."""

    @property
    def writes(self) -> Sequence[Any]:
        """Regions of buffers that it writes."""


class Function(Protocol):
    """A function of a module, in loop IR or Relax (``tvm.ir.BaseFunc``)."""

    @property
    def params(self) -> Sequence[Any]:
        """Parameters."""

    @property
    def body(self) -> Any:
        """A statement in loop IR, an expression in Relax."""

    @property
    def attrs(self) -> Mapping[str, Any] | None:
        """Attributes; None where there are none."""


class PrimFunc(Function, Protocol):
    """A function of loop IR (``tvm.tirx.PrimFunc``)."""

    def with_attr(self, attr_key_or_dict: str, attr_value: object) -> PrimFunc:
        """A copy with one more attribute."""

    def without_attr(self, attr_key: str) -> PrimFunc:
        """A copy without an attribute."""

    def with_body(self, new_body: Stmt) -> PrimFunc:
        """A copy with another body."""

    def script(self) -> str:
        """The function as TVMScript."""


class GlobalVar(Protocol):
    """The name of a function in a module (``tvm.ir.GlobalVar``)."""

    @property
    def name_hint(self) -> str:
        """The name."""


class IRModule(Protocol):
    """A module of functions (``tvm.ir.IRModule``)."""

    @property
    def attrs(self) -> Mapping[str, Any] | None:
        """Attributes; None where there are none."""

    def functions_items(self) -> Iterable[tuple[GlobalVar, Any]]:
        """Names and functions, sorted by name."""

    def get_global_vars(self) -> Sequence[GlobalVar]:
        """Names of all functions."""

    def __getitem__(self, var: GlobalVar | str) -> Any: ...


Pass: TypeAlias = Callable[[IRModule], IRModule]
