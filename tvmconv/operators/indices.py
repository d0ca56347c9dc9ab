"""Indices that a network computes, made safe: checked, counted from the start, and flattened.

Kernels that read or write at computed indices trust them. Therefore these functions bring every
index into its axis, and set a flag if an index was outside.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvmconv.operators.row_vectors import registers
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Expr, Tensor

# rows of indices that a thread takes at once; each has a flag of its own
_TASK_ROWS = 1 << 14
# attributes of a function of :func:`checked_rows`: its arguments
INDEX_SIZES, FROM_END = "tvmconv.index_sizes", "tvmconv.index_from_end"
_INT32_MAX = (1 << 31) - 1


def number_type(rows: int) -> str:
    """The type of numbers of so many rows."""
    return "int32" if rows <= _INT32_MAX else "int64"


def checked_rows(indices: Tensor, sizes: Sequence[int], from_end: bool = True) -> list[Tensor]:
    """The number of the row that each tuple of indices selects, and flags.

    ``indices`` is ``(batches, count, len(sizes))``. The result ``(batches, count)`` numbers rows
    over batches and axes. A negative index counts from the end of its axis; without ``from_end`` it
    is outside. An index outside its axis selects a row of the axis's edge, and sets a flag.
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
                        within, is_outside = _within(index, str(indices.dtype), size, from_end)
                        outside[0] = tirx.bitwise_or(outside[0], tirx.Cast("int32", is_outside))
                        number = number * size + tirx.Cast(dtype, within)
                    if batches > 1:
                        number = number + tirx.Cast(dtype, batch) * rows
                    numbers[batch, first + place] = number
                flags[task] = outside[0]
            return builder.get()

    shapes = [[batches, count], [batches * parts]]
    return te.extern(shapes, [indices], write, dtype=[dtype, "int32"], name="check_indices")


def _within(index: Any, dtype: str, size: int, from_end: bool) -> tuple[Any, Any]:
    """An index from 0 to less than ``size``, and whether the given one was outside."""
    zero, end = tirx.const(0, dtype), tirx.const(size, dtype)
    counted = index
    if from_end:
        counted = index + tirx.Select(index < zero, end, zero)
    within = tirx.min(tirx.max(counted, zero), tirx.const(size - 1, dtype))
    return within, tirx.any(counted < zero, counted >= end)


def clamped_rows(indices: Tensor, sizes: Sequence[int], from_end: bool = True) -> Tensor:
    """As :func:`checked_rows` without flags, for devices of many threads and known indices."""
    batches, count, _ = (int(size) for size in indices.shape)
    rows = prod(sizes)
    dtype = number_type(batches * rows)

    def number(batch: Expr, place: Expr) -> Expr:
        result = tirx.Cast(dtype, batch) if batches > 1 else tirx.const(0, dtype)
        for axis, size in enumerate(sizes):
            index = indices[batch, place, axis]
            within, _ = _within(index, str(indices.dtype), size, from_end)
            result = result * size + tirx.Cast(dtype, within)
        return result

    return te.compute((batches, count), number, name="row_numbers")


def picked_elements(data: Tensor, indices: Tensor, axis: int) -> Tensor:
    """Elements at indices from 0 along an axis, and at their own place along the other axes."""

    def element(*place: Expr) -> Expr:
        index = indices[place]
        return data[(*place[:axis], index, *place[axis + 1 :])]

    return te.compute(indices.shape, element, name="gather_elements")


def reversed_sequences(data: Tensor, lengths: Tensor, batch: int, time: int) -> Tensor:
    """The first elements along ``time`` in reverse, as many as the length of each sequence."""

    def element(*place: Expr) -> Expr:
        here, length = place[time], tirx.Cast("int32", lengths[place[batch]])
        back = tirx.Select(here < length, length - 1 - here, here)
        return data[(*place[:time], back, *place[time + 1 :])]

    return te.compute(data.shape, element, name="reverse_sequence")
