"""Graphs: the Relax language, its operators and its passes (``tvm.relax``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from tvm.relax import (
    BindingBlock,
    BlockBuilder,
    DataflowBlock,
    DataflowVar,
    Function,
    If,
    SeqExpr,
    ShapeExpr,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
    VarBinding,
    VirtualMachine,
    analysis,
    backend,
    build,
    call_dps_packed,
    call_tir,
    const,
    op,
    transform,
)

if TYPE_CHECKING:
    from tvmconv.tvm_api import types

    Class = TypeVar("Class", bound=type)

    def mutator(cls: Class) -> Class:
        """Let TVM call the methods of a :class:`PyExprMutator`."""

    def visitor(cls: Class) -> Class:
        """Let TVM call the methods of a :class:`PyExprVisitor`."""

    class PyExprVisitor:
        """Walks Relax expressions."""

        def visit_expr(self, expr: types.RelaxExpr) -> None:
            """Visit one expression and those in it."""

        def visit_call_(self, call: Any) -> None:
            """Visit a call."""

        def visit_global_var_(self, var: types.GlobalVar) -> None:
            """Visit the name of a function."""

    class PyExprMutator:
        """Rewrites Relax expressions."""

        builder_: types.BlockBuilder

        def __init__(self, mod: types.IRModule | None = None) -> None: ...

        def visit_expr(self, expr: types.RelaxExpr) -> Any:
            """The rewritten expression."""

        def visit_call_(self, call: Any) -> Any:
            """The rewritten call."""

        def visit_var_binding_(self, binding: types.Binding) -> None:
            """Append a rewritten binding."""

        def visit_binding_block_(self, block: types.BindingBlock) -> types.BindingBlock:
            """The rewritten block."""

        def visit_dataflow_block_(self, block: types.BindingBlock) -> types.BindingBlock:
            """The rewritten block."""

        def set_var_remap(self, var: types.RelaxVar, new: types.RelaxVar) -> None:
            """Put another variable for one that is bound no longer."""
else:
    from tvm.relax.expr_functor import PyExprMutator, PyExprVisitor, mutator, visitor

# Attribute of a module: libraries of TVM's back ends, which ``relax.build`` links with its own
# code. TVM defines the name in C++ only.
EXTERNAL_MODULES = "external_mods"


def begin_dataflow(builder: Any) -> None:
    """Open a dataflow block that :func:`end_block` closes.

    ``BlockBuilder.dataflow()`` adds its block to the function around it. A mutator returns each
    block, and has no function around it; its own methods call these two functions.
    """
    builder._begin_dataflow_block()


def end_block(builder: Any) -> types.BindingBlock:
    """Close the innermost block, for example one that :func:`begin_dataflow` opened."""
    return builder._end_block()


@contextmanager
def dataflow(builder: Any) -> Iterator[None]:
    """``BlockBuilder.dataflow()`` inside a function, for a body that may raise.

    Its scope opens the block that ``emit_func_output`` closes. TVM complains on stderr of a block
    that is left open.
    """
    try:
        with builder.dataflow():
            yield
    except BaseException:
        end_block(builder)
        raise
