"""Products of two run-time matrices of bytes with sums in INT32, by dot-product instructions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmconv.machines.multiply import Multiply
from tvmconv.operators.products import dot, pair, side_by_side, word
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Index, Tensor

# value of the attribute ``tvmconv.operator`` of the block with the sums
PRODUCT = "byte_product"
# the highest bit of each byte: flipped, an unsigned byte is a signed byte that is 128 less
_HIGHEST_BITS = -0x7F7F7F80
# the unsigned byte that becomes 0
_SHIFT = 128
_BITS = 32


def row_sums(left: Tensor) -> Tensor:
    """Sums of the rows of (.., m, k) bytes in int32, as (.., m, 1)."""
    k = te.reduce_axis((0, int(left.shape[-1])), "k")
    shape = [int(size) for size in left.shape[:-1]]

    def element(*index: Expr) -> Expr:
        return te.sum(left[(*index[:-1], k)].astype("int32"), axis=k)

    return te.compute((*shape, 1), element, name="row_sums")


def byte_product(
    left: Tensor,
    right: Tensor,
    left_zero: Tensor | None,
    right_zero: Tensor | None,
    sums: Tensor | None,
    multiply: Multiply,
    lanes: int,
) -> Tensor:
    """``(left - left_zero) @ (right - right_zero)`` in int32, modulo 2**32, with numpy's batches.

    Parameters
    ----------
    left
        (.., m, k) of uint8 or int8: ``multiply.data`` if its factors are bytes.
    right
        (.., k, n) of uint8 or int8. k is at least ``multiply.width``.
    left_zero, right_zero
        Zero points in int32, in shapes that broadcast to the result, or None for 0. If factors are
        bytes, a zero point of unsigned columns is given less 128.
    sums
        (.., m, 1), :func:`row_sums` of ``left``; only with ``right_zero``.
    multiply
        The instruction, of dwords of two or four elements.
    lanes
        Columns of a panel.

    Blocks: ``panels``, columns as dwords of neighboring steps; ``column_sums`` of them;
    ``product``, sums of panels; ``output``.
    """
    steps = _Steps(multiply, int(left.shape[-1]), str(right.dtype))
    shapes = [[int(size) for size in tensor.shape] for tensor in (left, right)]
    rows, columns = shapes[0][-2], shapes[1][-1]
    count = -(-columns // lanes)
    batch = _broadcast(shapes[0][:-2], shapes[1][:-2])
    x, y = (te.reduce_axis((0, steps.count), name) for name in "xy")

    def packed(*index: Expr) -> Expr:
        *outer, panel, step, lane = index
        column = panel * lanes + lane
        value = steps.columns(lambda k: right[(*outer, k, column)], step)
        if count * lanes == columns:
            return value
        return tirx.if_then_else(column < columns, value, tirx.const(0, "int32"))

    panels = te.compute(
        (*shapes[1][:-2], count, steps.count, lanes), packed, name="panels"
    )

    def multiplied(*index: Expr) -> Expr:
        *outer, row, panel, lane = index
        own = _own(shapes[0][:-2], outer)
        data = steps.row(lambda k: left[(*own, row, k)], x)
        weight = panels[(*_own(shapes[1][:-2], outer), panel, x, lane)]
        return te.sum(dot(data, weight, multiply.name), axis=x)

    product = te.compute(
        (*batch, rows, count, lanes),
        multiplied,
        name="product",
        attrs={"tvmconv.operator": PRODUCT},
    )
    totals = None
    if left_zero is not None:
        ones = tirx.const(sum(1 << _BITS // multiply.width * i for i in range(multiply.width)),
                          "int32")  # fmt: skip

        def added(*index: Expr) -> Expr:
            *outer, panel, lane = index
            return te.sum(dot(ones, panels[(*outer, panel, y, lane)], multiply.name), axis=y)

        totals = te.compute((*shapes[1][:-2], count, lanes), added, name="column_sums")

    def finished(*index: Expr) -> Expr:
        *outer, row, column = index
        place = (column // lanes, column % lanes)
        value = product[(*outer, row, *place)]
        zero = None if right_zero is None else _at(right_zero, index)
        if left_zero is not None:
            assert totals is not None
            total = totals[(*_own(shapes[1][:-2], outer), *place)]
            if zero is not None:
                total = total - zero * shapes[0][-1]
            value = value - _at(left_zero, index) * total
        if zero is not None:
            assert sums is not None
            value = value - zero * _at(sums, index)
        return value

    return te.compute((*batch, rows, columns), finished, name="output")


def is_byte_product(left: Sequence[int], right: Sequence[int], multiply: Multiply) -> bool:
    """Whether :func:`byte_product` computes a product of these shapes, and pays for its copy."""
    least = min(len(left), len(right)) >= 2 and left[-1] >= multiply.width
    return least and prod(left[-2:]) * right[-1] >= _SMALLEST


# MACs below which plain loops are as fast
_SMALLEST = 512


class _Steps:
    """The reduction in dwords; elements after the last one are zeros on the side of the rows."""

    def __init__(self, multiply: Multiply, inner: int, right: str) -> None:
        self._width, self._inner, self._right = multiply.width, inner, right
        self._wide = multiply.element == "int16"
        self.count = -(-inner // multiply.width)

    def row(self, element: te.Callable[[Index], Expr], step: Expr) -> Expr:
        """The dword of a row at a step; the last one begins earlier, and is shifted."""
        read, width = pair if self._wide else word, self._width
        value, rest = read(element(step * width)), self._inner % width
        if not rest:
            return value
        last = tirx.reinterpret("uint32", read(element(self._inner - width)))
        bits = tirx.const(_BITS // width * (width - rest), "uint32")
        last = tirx.reinterpret("int32", last >> bits)
        return tirx.if_then_else(step < self._inner // width, value, last)

    def columns(self, element: te.Callable[[Index], Expr], step: Expr) -> Expr:
        """The dword of a column, of signed elements."""
        values = []
        flipped = not self._wide and self._right == "uint8"
        nothing = tirx.const(_SHIFT if flipped else 0, self._right)
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


def _broadcast(left: Sequence[int], right: Sequence[int]) -> list[int]:
    rank = max(len(left), len(right))
    padded = [[1] * (rank - len(shape)) + list(shape) for shape in (left, right)]
    return [max(sizes) for sizes in zip(*padded, strict=True)]


def _own(shape: Sequence[int], index: Sequence[Expr]) -> list[Index]:
    """The indices of an operand of this shape at the indices of the result."""
    places = index[len(index) - len(shape) :]
    return [0 if size == 1 else place for size, place in zip(shape, places, strict=True)]


def _at(tensor: Tensor, index: Sequence[Expr]) -> Expr:
    """An element of an operand that broadcasts to the result."""
    return tensor[tuple(_own([int(size) for size in tensor.shape], index))]
