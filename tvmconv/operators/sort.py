"""The largest or smallest elements in order."""

from __future__ import annotations

from math import prod
from typing import Any

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T


def top_k(data: Any, k: int, axis: int, largest: bool, index_type: str = "int64") -> list[Any]:
    """The ``k`` largest elements along an axis in descending order, or the smallest ascending.

    Equal elements keep their order. NaN counts as larger than every number, as in numpy and torch;
    onnxruntime does not define its position.

    Parameters
    ----------
    data
        Any shape and numeric type; at least ``k`` elements along ``axis``.
    k, axis, largest
        As in ONNX's TopK.
    index_type
        Type of the indices.

    Returns
    -------
    list of te.Tensor
        Values and indices, with ``k`` in place of the axis' size.
    """
    shape = [int(size) for size in data.shape]
    axis %= len(shape)
    result = [*shape[:axis], k, *shape[axis + 1 :]]
    size, inner = shape[axis], prod(shape[axis + 1 :])
    rows = prod(shape[:axis]) * inner

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, values, indices = (T.buffer_proxy(b) for b in (ins[0], *outs))
            loop = T.parallel if rows > 1 else T.serial
            with loop(0, rows) as row:
                start = row // inner * (size * inner) + row % inner
                target = row // inner * (k * inner) + row % inner

                def element(position: Any) -> Any:
                    return source[start + position * inner]

                def before(left: Any, right: Any) -> Any:
                    return goes_before(element(left), element(right), data.dtype, largest)

                ranked = _merge_sorted(size, before)
                with T.serial(0, k) as rank:
                    values[target + rank * inner] = element(ranked(rank))
                    indices[target + rank * inner] = tirx.Cast(index_type, ranked(rank))
            return builder.get()

    values, indices = te.extern(
        [result, result],
        [data],
        write,
        dtype=[data.dtype, index_type],
        name="top_k",
    )
    return [values, indices]


def goes_before(left: Any, right: Any, dtype: Any, largest: bool) -> Any:
    """Whether an element comes before another one that differs from it; NaN counts as largest."""
    ordered = left > right if largest else left < right
    if not str(dtype).startswith(("float", "bfloat")):
        return ordered
    first, second = (left, right) if largest else (right, left)
    return tirx.any(ordered, tirx.all(tirx.isnan(first), tirx.Not(tirx.isnan(second))))


def _merge_sorted(size: int, before: Any) -> Any:
    """Write a stable sort of positions by a comparison; gives the position of a rank."""
    # each pass merges pairs of sorted runs from one half of the buffer to the other
    order = T.buffer_proxy(T.decl_buffer([2 * size], "int32", scope="global"))
    # positions in the left and the right run, and the run that gives the next element
    state = T.buffer_proxy(T.decl_buffer([3], "int32", scope="local"))
    left, right, takes = range(3)
    passes = (size - 1).bit_length()
    with T.serial(0, size) as position:
        order[position] = position
    with T.serial(0, passes) as step:
        width = tirx.shift_left(tirx.const(1, "int32"), step)
        source, target = step % 2 * size, (step + 1) % 2 * size
        with T.serial(0, size) as position:
            begin = position - position % (2 * width)
            middle, end = tirx.min(begin + width, size), tirx.min(begin + 2 * width, size)
            with T.If(position == begin), T.Then():
                state[left] = begin
                state[right] = middle
            rest = tirx.if_then_else(
                state[left] >= middle,
                1,
                tirx.Cast(
                    "int32", before(order[source + state[right]], order[source + state[left]])
                ),
            )
            state[takes] = tirx.if_then_else(state[right] >= end, 0, rest)
            taken = tirx.if_then_else(state[takes] == 1, state[right], state[left])
            order[target + position] = order[source + taken]
            state[left] = state[left] + 1 - state[takes]
            state[right] = state[right] + state[takes]
    return lambda rank: order[passes % 2 * size + rank]
