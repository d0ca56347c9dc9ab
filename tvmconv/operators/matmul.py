"""Products of two matrices whose axes have any order in memory."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.tvm_api import te
from tvmconv.tvm_api.types import Expr, Index, Tensor


def matmul(left: Tensor, right: Tensor, axes: Sequence[Sequence[int]]) -> Tensor:
    """``left @ right`` with numpy's broadcasting of all axes but the last two.

    ``axes`` lists for each operand the axes of its memory, in the operand's order.
    """
    tensors = (left, right)
    shapes = [
        [int(tensor.shape[axis]) for axis in order]
        for tensor, order in zip(tensors, axes, strict=True)
    ]
    rank = max(len(shape) for shape in shapes)
    batch = [
        max(shape[len(shape) - 2 - back] for shape in shapes if len(shape) - 2 >= back)
        for back in range(rank - 2, 0, -1)
    ]
    k = te.reduce_axis((0, shapes[0][-1]), "k")

    def read(number: int, index: Sequence[Expr]) -> Expr:
        shape, order = shapes[number], axes[number]
        own = index[len(index) - len(shape) :]
        place: list[Index] = [0] * len(shape)
        for axis, (size, position) in enumerate(zip(shape, own, strict=True)):
            place[order[axis]] = 0 if size == 1 and axis < len(shape) - 2 else position
        return tensors[number][tuple(place)]

    def element(*index: Expr) -> Expr:
        *outer, m, n = index
        return te.sum(read(0, [*outer, m, k]) * read(1, [*outer, k, n]), axis=k)

    return te.compute((*batch, shapes[0][-2], shapes[1][-1]), element, name="matmul")
