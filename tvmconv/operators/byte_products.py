"""Products of two run-time matrices of bytes with sums in INT32, by dot-product instructions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from tvmconv.machines.multiply import Multiply
from tvmconv.operators.products import dot, pair, side_by_side, word
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Index, Tensor

# values of the attribute ``tvmconv.operator`` of the copy, and of the block with the sums
PANELS, PRODUCT = "byte_panels", "byte_product"
# the highest bit of each byte: flipped, an unsigned byte is a signed byte that is 128 less
_HIGHEST_BITS = -0x7F7F7F80
# the unsigned byte that becomes 0
SHIFT = 128
_BITS = 32
# MACs below which plain loops are as fast
_SMALLEST = 512


def row_sums(left: Tensor) -> Tensor:
    """Sums of the rows of (.., m, k) bytes in int32, as (.., m, 1)."""
    k = te.reduce_axis((0, int(left.shape[-1])), "k")
    shape = [int(size) for size in left.shape[:-1]]

    def element(*index: Expr) -> Expr:
        return te.sum(left[(*index[:-1], k)].astype("int32"), axis=k)

    return te.compute((*shape, 1), element, name="row_sums")


def byte_panels(right: Tensor, multiply: Multiply, lanes: int, sums: bool) -> list[Tensor]:
    """Columns of (.., k, n) bytes in panels of one vector, as dwords of neighboring steps.

    Returns int32 of (.., n / lanes, k / multiply.width, lanes), filled up with zeros. With
    ``sums`` the second result are the sums of the columns, (.., n / lanes, lanes). k is at least
    ``multiply.width``. If factors are bytes, unsigned columns are stored less 128.
    """
    *batch, inner, columns = (int(size) for size in right.shape)
    steps = _Steps(multiply, inner)
    count = -(-columns // lanes)

    def packed(*index: Expr) -> Expr:
        *outer, panel, step, lane = index
        column = panel * lanes + lane
        value = steps.columns(lambda k: right[(*outer, k, column)], step, str(right.dtype))
        if count * lanes == columns:
            return value
        return tirx.if_then_else(column < columns, value, tirx.const(0, "int32"))

    panels = te.compute(
        (*batch, count, steps.count, lanes),
        packed,
        name="panels",
        attrs={"tvmconv.operator": PANELS},
    )
    if not sums:
        return [panels]
    x = te.reduce_axis((0, steps.count), "x")
    width = multiply.width
    ones = tirx.const(sum(1 << _BITS // width * i for i in range(width)), "int32")

    def added(*index: Expr) -> Expr:
        *outer, panel, lane = index
        return te.sum(dot(ones, panels[(*outer, panel, x, lane)], multiply.name), axis=x)

    return [panels, te.compute((*batch, count, lanes), added, name="column_sums")]


def byte_product(
    left: Tensor,
    panels: Tensor,
    columns: int,
    left_zero: tuple[Tensor, Tensor] | None,
    right_zero: tuple[Tensor, Tensor] | None,
    multiply: Multiply,
) -> Tensor:
    """``(left - left_zero) @ (right - right_zero)`` in int32, modulo 2**32, with numpy's batches.

    Parameters
    ----------
    left
        (.., m, k) of uint8 or int8: ``multiply.data`` if its factors are bytes.
    panels
        The matrix (.., k, n) on the right as :func:`byte_panels`.
    columns
        n.
    left_zero, right_zero
        A zero point in int32, in a shape that broadcasts to the result, and the sums of the other
        matrix along k: the columns' of :func:`byte_panels`, or :func:`row_sums`. None for 0. If
        factors are bytes, a zero point of unsigned columns is given less 128.
    multiply
        The instruction, of dwords of two or four elements.

    Blocks: ``product``, sums in panels; ``output``.
    """
    *batch, rows, inner = (int(size) for size in left.shape)
    *other, count, _, lanes = (int(size) for size in panels.shape)
    steps, x = _Steps(multiply, inner), te.reduce_axis((0, -(-inner // multiply.width)), "x")

    def multiplied(*index: Expr) -> Expr:
        *outer, row, panel, lane = index
        own = _own(batch, outer)
        data = steps.row(lambda k: left[(*own, row, k)], x)
        weight = panels[(*_own(other, outer), panel, x, lane)]
        return te.sum(dot(data, weight, multiply.name), axis=x)

    shape = np.broadcast_shapes(tuple(batch), tuple(other))
    product = te.compute(
        (*shape, rows, count, lanes),
        multiplied,
        name="product",
        attrs={"tvmconv.operator": PRODUCT},
    )

    def finished(*index: Expr) -> Expr:
        *outer, row, column = index
        place = (column // lanes, column % lanes)
        value = product[(*outer, row, *place)]
        if right_zero is not None:
            value = value - _at(right_zero[0], index) * _at(right_zero[1], index)
        if left_zero is not None:
            total = left_zero[1][(*_own(other, outer), *place)]
            if right_zero is not None:
                total = total - _at(right_zero[0], index) * tirx.const(inner, "int32")
            value = value - _at(left_zero[0], index) * total
        return value

    return te.compute((*shape, rows, columns), finished, name="output")


def is_byte_product(left: Sequence[int], right: Sequence[int], multiply: Multiply) -> bool:
    """Whether :func:`byte_product` computes a product of these shapes, and pays for its copy."""
    least = min(len(left), len(right)) >= 2 and left[-1] >= multiply.width
    return least and prod(left[-2:]) * right[-1] >= _SMALLEST


class _Steps:
    """The reduction in dwords; elements after the last one are zeros on the side of the rows."""

    def __init__(self, multiply: Multiply, inner: int) -> None:
        self._width, self._inner = multiply.width, inner
        self._wide = multiply.element == "int16"
        self.count = -(-inner // multiply.width)

    def row(self, element: Callable[[Index], Expr], step: Expr) -> Expr:
        """The dword of a row at a step; the last one begins earlier, and is shifted."""
        read, width = pair if self._wide else word, self._width
        value, rest = read(element(step * width)), self._inner % width
        if not rest:
            return value
        last = tirx.reinterpret("uint32", read(element(self._inner - width)))
        bits = tirx.const(_BITS // width * (width - rest), "uint32")
        last = tirx.reinterpret("int32", last >> bits)
        return tirx.if_then_else(step < self._inner // width, value, last)

    def columns(self, element: Callable[[Index], Expr], step: Expr, dtype: str) -> Expr:
        """The dword of a column, of signed elements; ``dtype`` is the type of ``element``."""
        values = []
        flipped = not self._wide and dtype == "uint8"
        nothing = tirx.const(SHIFT if flipped else 0, dtype)
        for i in range(self._width):
            k = step * self._width + i
            value = element(k)
            if self.count * self._width > self._inner:
                value = tirx.if_then_else(k < self._inner, value, nothing)
            values.append(value)
        if not self._wide:
            dword = side_by_side(values, self._width)
            return dword ^ tirx.const(_HIGHEST_BITS, "int32") if flipped else dword
        low, high = (value.astype("int32") for value in values)
        return (low & tirx.const(0xFFFF, "int32")) | (high << tirx.const(16, "int32"))


def _own(shape: Sequence[int], index: Sequence[Expr]) -> list[Index]:
    """The indices of an operand of this shape at the indices of the result."""
    places = index[len(index) - len(shape) :]
    return [0 if size == 1 else place for size, place in zip(shape, places, strict=True)]


def _at(tensor: Tensor, index: Sequence[Expr]) -> Expr:
    """An element of an operand that broadcasts to the result."""
    return tensor[tuple(_own([int(size) for size in tensor.shape], index))]
