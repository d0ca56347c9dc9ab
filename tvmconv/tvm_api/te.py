"""Tensor expressions (``tvm.te``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvmconv.tvm_api.types import Expr, Index, PrimFunc, Scalar, Tensor

    def placeholder(shape: Sequence[Index], dtype: str = ..., name: str = ...) -> Tensor:
        """An argument."""

    def compute(
        shape: Sequence[Index],
        fcompute: Callable[..., Scalar],
        name: str = ...,
        tag: str = ...,
        attrs: Mapping[str, object] | None = ...,
    ) -> Tensor:
        """A tensor by the value at each index; it becomes a block of this name."""

    def reduce_axis(dom: tuple[Index, Index], name: str = ...) -> Expr:
        """An index to sum over."""

    def sum(expr: Expr, axis: Expr | Sequence[Expr]) -> Expr:
        """Sum over reduction axes."""

    def max(expr: Expr, axis: Expr | Sequence[Expr]) -> Expr:
        """Largest value over reduction axes."""

    def extern(
        shape: Sequence[Sequence[int]],
        inputs: Sequence[Tensor],
        fcompute: Callable[..., object],
        name: str = ...,
        dtype: Sequence[str] = ...,
    ) -> list[Tensor]:
        """Tensors that statements compute, given the buffers."""

    def create_prim_func(ops: Sequence[Tensor]) -> PrimFunc:
        """A function in block form of placeholders and results."""
else:
    from tvm.te import compute, create_prim_func, extern, max, placeholder, reduce_axis, sum


def sum_from(first: Expr, expr: Expr, axis: Expr | Sequence[Expr]) -> Expr:
    """``first`` plus the sum over reduction axes; the block's initialization stores ``first``.

    ``create_prim_func`` ignores the ``init`` of TVM's own sums. The identity of a reducer may be an
    expression of the block's indices.
    """
    from tvm.te import comm_reducer

    total = comm_reducer(lambda x, y: x + y, lambda _dtype: first, name="sum")
    return total(expr, axis=axis)
