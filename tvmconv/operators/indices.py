"""Indices that a network computes, made safe: checked, counted from the start, and flattened.

Kernels that read or write at computed indices trust them. Therefore these functions bring every
index into its axis, and set a flag if an index was outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvmconv.operators.registers import LANES
from tvmconv.operators.row_vectors import registers, side_by_side
from tvmconv.operators.vector_loops import shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Expr, Tensor

# rows of indices that a thread takes at once; each has a flag of its own
_TASK_ROWS = 1 << 14
# attributes of a function of :func:`checked_rows`: its arguments
INDEX_SIZES, FROM_END = "tvmconv.index_sizes", "tvmconv.index_from_end"
# attribute of a function of :func:`checked_elements`: the elements after the axis
INNER = "tvmconv.index_inner"
_INT32_MAX = (1 << 31) - 1


def number_type(rows: int) -> str:
    """The type of numbers of so many rows."""
    return "int32" if rows <= _INT32_MAX else "int64"


def checked_rows(indices: Tensor, sizes: Sequence[int], from_end: bool = True) -> list[Tensor]:
    """The number of the row that each tuple of indices selects, and flags.

    ``indices`` is ``(batches, count, len(sizes))``. The result ``(batches, count)`` numbers rows
    over batches and axes. A negative index counts from the end of its axis; without ``from_end`` it
    is outside. An index outside its axis selects its first row, and sets a flag.
    """
    batches, count, _ = (int(size) for size in indices.shape)
    rows = prod(sizes)
    dtype = number_type(batches * rows)
    parts = -(-count // _TASK_ROWS)
    chunk = -(-count // parts)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, numbers, flags = (T.buffer_proxy(buffer) for buffer in (ins[0], *outs))
            loop = T.parallel if parts > 1 else T.serial
            with loop(0, batches * parts) as task:
                batch, first = task // parts, task % parts * chunk
                outside = registers(1, "int32")
                outside[0] = tirx.const(0, "int32")
                with T.serial(0, tirx.min(chunk, count - first)) as place:
                    number: Any = 0
                    for axis, size in enumerate(sizes):
                        index = source[batch, first + place, axis]
                        within, is_outside = _checked(index, str(indices.dtype), size, from_end)
                        outside[0] = tirx.bitwise_or(outside[0], tirx.Cast("int32", is_outside))
                        number = number * size + tirx.Cast(dtype, within)
                    if batches > 1:
                        number = number + tirx.Cast(dtype, batch) * rows
                    numbers[batch, first + place] = number
                flags[task] = outside[0]
            return builder.get()

    shapes = [[batches, count], [batches * parts]]
    return te.extern(shapes, [indices], write, dtype=[dtype, "int32"], name="check_indices")


def _counted(index: Any, dtype: str, size: int, from_end: bool) -> Any:
    """An index that counts from the start."""
    zero = tirx.const(0, dtype)
    return index + tirx.Select(index < zero, tirx.const(size, dtype), zero) if from_end else index


def _checked(index: Any, dtype: str, size: int, from_end: bool) -> tuple[Any, Any]:
    """An index from 0 to less than ``size``, and whether the given one was outside.

    One comparison of numbers without sign, as vectors of 64 bits have no minimum before AVX-512.
    """
    counted, unsigned = _counted(index, dtype, size, from_end), f"u{dtype}"
    outside = tirx.reinterpret(unsigned, counted) >= tirx.const(size, unsigned)
    return tirx.Select(outside, tirx.const(0, dtype), counted), outside


def _clamped(index: Any, dtype: str, size: int, from_end: bool) -> Any:
    """The nearest index from 0 to less than ``size``."""
    counted = _counted(index, dtype, size, from_end)
    return tirx.min(tirx.max(counted, tirx.const(0, dtype)), tirx.const(size - 1, dtype))


def clamped_rows(indices: Tensor, sizes: Sequence[int], from_end: bool = True) -> Tensor:
    """As :func:`checked_rows` without flags, for devices of many threads and known indices."""
    batches, count, _ = (int(size) for size in indices.shape)
    rows = prod(sizes)
    dtype = number_type(batches * rows)

    def number(batch: Expr, place: Expr) -> Expr:
        result = tirx.Cast(dtype, batch) if batches > 1 else tirx.const(0, dtype)
        for axis, size in enumerate(sizes):
            index = indices[batch, place, axis]
            within = _clamped(index, str(indices.dtype), size, from_end)
            result = result * size + tirx.Cast(dtype, within)
        return result

    return te.compute((batches, count), number, name="row_numbers")


def picked_elements(data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Elements at indices from 0 along an axis, and at their own place along the other axes."""

    def element(*place: Expr) -> Expr:
        index = indices[place]
        return data[(*place[:axis], index, *place[axis + 1 :])]

    return te.compute(indices.shape, element, name="gather_elements")


def index_lines(outer: int, count: int, inner: int) -> tuple[int, int]:
    """The shape in which :func:`checked_elements` takes indices ``(outer, count, inner)``."""
    return (outer * count, inner) if inner >= LANES else (outer, count * inner)


def checked_elements(
    data: Tensor, indices: Tensor, inner: int, from_end: bool = True
) -> list[Tensor]:
    """The element along an axis that each index selects, and flags of :func:`checked_rows`.

    ``data`` is ``(outer, size * inner)`` for an axis of ``size`` elements, with ``inner`` after it.
    ``indices`` and the result have the shape of :func:`index_lines`. A result has its index's place
    along the other axes.
    """
    lines, length = (int(extent) for extent in indices.shape)
    spot, dtype, size = _spots(data, indices, inner), str(indices.dtype), _size(data, inner)
    chunk = min(length, _TASK_ROWS)
    parts = -(-length // chunk)
    rows = max(1, min(lines, _TASK_ROWS // length)) if parts == 1 else 1
    tasks = -(-lines // rows) * parts

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, chosen, target, flags = map(T.buffer_proxy, (*ins, *outs))

            def piece(line: Any, first: Any, count: int, outside: Any) -> None:
                # LLVM would gather by vectors, which is slower than one load for each lane
                spots = registers(count, "int32")
                with side_by_side(count) as lane:
                    place = first + lane
                    index, wrong = _checked(chosen[line, place], dtype, size, from_end)
                    spots[lane] = spot(line, place, index)[1]
                    outside[lane] = tirx.bitwise_or(outside[lane], tirx.Cast("int32", wrong))
                with side_by_side(count) as lane:
                    row, _ = spot(line, first, 0)
                    target[line, first + lane] = source[row, spots[lane]]

            def whole(line: Any, first: Any, end: Any, outside: Any) -> None:
                with T.serial(0, end // LANES) as vector:
                    piece(line, first + vector * LANES, LANES, outside)
                if parts == 1 and length > LANES and length % LANES:
                    # one vector that overlaps the previous one
                    piece(line, length - LANES, LANES, outside)
                elif length % LANES:
                    with T.serial(0, end % LANES) as place:
                        piece(line, first + end // LANES * LANES + place, 1, outside)

            with shared(tasks) as task:
                begin, first = task // parts * rows, task % parts * chunk
                outside = registers(LANES, "int32")
                with side_by_side(LANES) as lane:
                    outside[lane] = tirx.const(0, "int32")
                with T.serial(0, tirx.min(rows, lines - begin)) as number:
                    end = length if parts == 1 else tirx.min(chunk, length - first)
                    whole(begin + number, first, end, outside)
                flags[task] = outside[0]
                for lane in range(1, LANES):
                    flags[task] = tirx.bitwise_or(flags[task], outside[lane])
            return builder.get()

    types = [str(data.dtype), "int32"]
    shapes = [[lines, length], [tasks]]
    return te.extern(shapes, [data, indices], write, dtype=types, name="gather_elements")


def clamped_elements(data: Tensor, indices: Tensor, inner: int, from_end: bool = True) -> Tensor:
    """As :func:`checked_elements` without flags, for devices of many threads."""
    spot, dtype, size = _spots(data, indices, inner), str(indices.dtype), _size(data, inner)

    def element(line: Expr, place: Expr) -> Expr:
        return data[spot(line, place, _clamped(indices[line, place], dtype, size, from_end))]

    return te.compute(indices.shape, element, name="gather_elements")


def _size(data: Tensor, inner: int) -> int:
    return int(data.shape[1]) // inner


def _spots(data: Tensor, indices: Tensor, inner: int) -> Callable[[Any, Any, Any], tuple[Any, Any]]:
    """A function of a line, a place in it and an index that gives the place in the data."""
    lines, length = (int(extent) for extent in indices.shape)
    repeats = lines // int(data.shape[0])

    def spot(line: Any, place: Any, index: Any) -> tuple[Any, Any]:
        column = place if length == inner else place % inner
        return line // repeats, tirx.Cast("int32", index) * inner + column

    return spot


def reversed_sequences(data: Tensor, lengths: Tensor, batch: int, time: int) -> Tensor:
    """The first elements along ``time`` in reverse, as many as the length of each sequence."""

    def element(*place: Expr) -> Expr:
        here, length = place[time], tirx.Cast("int32", lengths[place[batch]])
        back = tirx.Select(here < length, length - 1 - here, here)
        return data[(*place[:time], back, *place[time + 1 :])]

    return te.compute(data.shape, element, name="reverse_sequence")
