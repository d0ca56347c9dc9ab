"""Updates of tensors at computed places, and the copies that they change.

Updates of one place are made in the order of the updates, as in onnxruntime. Indices must be valid.
The functions of updates leave the other elements of their result as they are. They are called in
place, on a copy of the data; :mod:`tvmconv.program.joins` omits copies of data that nobody reads
later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from tvmconv.operators.indices import number_type
from tvmconv.operators.vector_loops import grid, place_of, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

REDUCTIONS = ("none", "add", "mul", "min", "max")
# elements that a thread copies or updates at once
_TASK_ELEMENTS = 1 << 15
# columns of wide rows that a thread updates: a multiple of every vector
_MIN_COLUMNS = 256


def copied(data: Tensor) -> Tensor:
    """A copy of a flat tensor."""
    size = int(data.shape[0])
    return _by_parts([data], size, lambda source, place: source[0][place], str(data.dtype), "copy")


def zeros(size: int, dtype: str) -> Tensor:
    """A flat tensor of zeros."""
    return _by_parts([], size, lambda _, __: tirx.const(0, dtype), dtype, "zeros")


def _by_parts(
    operands: list[Tensor],
    size: int,
    element: Callable[[list[Any], Any], Any],
    dtype: str,
    name: str,
) -> Tensor:
    """A flat tensor by its elements, in parts for several threads if it is large."""
    parts = max(-(-size // _TASK_ELEMENTS), 1)
    chunk = -(-size // parts)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, target = [T.buffer_proxy(b) for b in ins], T.buffer_proxy(outs[0])
            with shared(parts) as part:
                first = part * chunk
                with T.serial(0, tirx.min(chunk, size - first)) as place:
                    target[first + place] = element(source, first + place)
            return builder.get()

    result: Any = te.extern([[size]], operands, write, dtype=[dtype], name=name)
    return result


def updated_elements(
    indices: Tensor,
    updates: Tensor,
    existing: Sequence[Tensor],
    shape: Sequence[int],
    axis: int,
    reduction: str,
) -> Tensor:
    """Each update at its index along ``axis``, and at its own place along the other axes.

    The result is flat; ``shape`` is the shape of its view. If ``existing`` has a number, as many of
    the first updates along the first axis are made.
    """
    counts = [int(size) for size in indices.shape]
    outer, size = prod(counts[:axis]), prod(shape)
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            places, values, *numbers = [T.buffer_proxy(b) for b in ins]
            target = T.buffer_proxy(outs[0])
            extents: list[Any] = [_existing(numbers, counts[0]), *counts[1:]]
            # different places along the axes before: no update meets another one's
            loop = T.parallel if outer > 1 and prod(counts) >= _TASK_ELEMENTS else T.serial
            with loop(0, outer) as row:
                first = place_of(row, counts[:axis])
                if axis and numbers:
                    extents[axis] = tirx.Select(first[0] < extents[0], counts[axis], 0)
                with grid(extents[axis:]) as rest:
                    here = (*first, *rest)
                    there = _flat([*first, places[here], *rest[1:]], strides, size)
                    target[there] = _reduced(target[there], values[here], reduction)
            return builder.get()

    operands, dtype = [indices, updates, *existing], str(updates.dtype)
    result: Any = te.extern([[size]], operands, write, dtype=[dtype], name="scatter_elements")
    return result


def updated_rows(
    rows: Tensor, updates: Tensor, existing: Sequence[Tensor], size: int, reduction: str
) -> Tensor:
    """Each row of ``updates`` at its row of a flat tensor of ``size`` elements.

    If ``existing`` has a number, as many of the first rows are written.
    """
    count, width = (int(extent) for extent in updates.shape)
    columns = width
    if count * width >= _TASK_ELEMENTS:
        columns = min(width, max(_MIN_COLUMNS, _TASK_ELEMENTS // count // 64 * 64))
    parts = -(-width // max(columns, 1))

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            places, values, *numbers = [T.buffer_proxy(b) for b in ins]
            target = T.buffer_proxy(outs[0])
            with shared(parts) as part:
                first = part * columns
                length = tirx.min(columns, width - first)
                end = _existing(numbers, count)
                with T.serial(0, end) as row, T.serial(0, length) as column:
                    there = _flat([places[row], first + column], [width, 1], size)
                    value = values[row, first + column]
                    target[there] = _reduced(target[there], value, reduction)
            return builder.get()

    operands, dtype = [rows, updates, *existing], str(updates.dtype)
    result: Any = te.extern([[size]], operands, write, dtype=[dtype], name="scatter_rows")
    return result


def _existing(numbers: list[Any], most: int) -> Any:
    """The number of updates, which may be given at run time."""
    if not numbers:
        return most
    return tirx.Cast("int32", tirx.max(tirx.min(numbers[0][0], most), 0))


def _flat(place: list[Any], strides: list[int], size: int) -> Any:
    """The number of an element that is counted over all axes."""
    dtype, number = number_type(size), 0
    for index, stride in zip(place, strides, strict=True):
        number = number + tirx.Cast(dtype, index) * tirx.const(stride, dtype)
    return number


def _reduced(old: Any, new: Any, reduction: str) -> Any:
    """The value of a place after an update; ``min`` and ``max`` keep a NaN."""
    dtype = str(new.ty.dtype)
    if reduction == "none":
        return new
    if dtype == "bool":
        return tirx.any(old, new) if reduction in ("add", "max") else tirx.all(old, new)
    if reduction == "add":
        return old + new
    if reduction == "mul":
        return old * new
    ahead = new < old if reduction == "min" else new > old
    if dtype.startswith(("float", "bfloat")):
        ahead = tirx.any(ahead, tirx.isnan(new))
    return tirx.Select(ahead, new, old)
