"""The largest or smallest elements in order.

If ``k`` is small, a row is read once, and elements that come before the last of the ``k`` best so
far are inserted. Otherwise the best are selected by their keys, and sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvmconv.operators.entries import is_wide, key_bits, key_of, number_entry, position_of
from tvmconv.operators.selection import Selection
from tvmconv.operators.vector_loops import blocks, place_of, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T

# So many best elements are kept in order by insertion.
_INSERTED = 16
# Elements that are tested together: most blocks of a long row have none that counts.
_BLOCK = 64


def top_k(data: Any, k: int, axis: int, largest: bool, index_type: str = "int64") -> list[Any]:
    """Values and indices of the ``k`` largest elements along an axis, or of the smallest.

    Equal elements keep their order. NaN counts as larger than every number, as in numpy and torch;
    onnxruntime gives it no fixed place. ``k`` is at most the elements along ``axis``; it and the
    flags are as in ONNX's TopK.
    """
    shape, dtype = [int(size) for size in data.shape], str(data.dtype)
    axis %= len(shape)
    result = [*shape[:axis], k, *shape[axis + 1 :]]
    size, inner = shape[axis], prod(shape[axis + 1 :])
    rows = prod(shape[:axis]) * inner

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, values, indices = (T.buffer_proxy(b) for b in (ins[0], *outs))
            with shared(rows) as row:
                # the places of a row differ in one index: divisions are not in the loops
                before = place_of(row // inner, shape[:axis])
                after = place_of(row % inner, shape[axis + 1 :])

                def element(position: Any) -> Any:
                    return source[(*before, position, *after)]

                if k <= _INSERTED and not is_wide(dtype):
                    position_at = _inserted(element, size, k, dtype, largest)
                else:
                    kind, bits = "uint64" if is_wide(dtype) else "uint32", key_bits(dtype)

                    def key(position: Any) -> Any:
                        return key_of(element(position), dtype, largest)

                    kept = Selection(key, size, k, kind, bits).ordered()
                    position_at = kept.__getitem__
                with T.serial(0, k) as rank:
                    position = position_at(rank)
                    values[(*before, rank, *after)] = element(position)
                    indices[(*before, rank, *after)] = tirx.Cast(index_type, position)
            return builder.get()

    types = [data.dtype, index_type]
    return te.extern([result, result], [data], write, dtype=types, name="top_k")


def _inserted(
    element: Callable[[Any], Any], size: int, k: int, dtype: str, largest: bool
) -> Callable[[Any], Any]:
    """The position of each rank among the best entries, of which each was put at its place."""
    kept = scratch(k, "uint64")
    for rank in range(k):
        # comes after all others
        kept[rank] = tirx.const(0, "uint64")
    keys, highest = scratch(_BLOCK, "uint32"), scratch(1, "uint32")

    def passes(key: Any) -> Any:
        """Whether elements with this key come before the last entry."""
        last = kept[k - 1]
        lowest = tirx.Cast("int64", last // tirx.const(1 << 32, "uint64"))
        nothing = last == tirx.const(0, "uint64")
        return tirx.Cast("int64", key) > tirx.Select(nothing, tirx.const(-1, "int64"), lowest)

    def insert(position: Any) -> None:
        # the last rank first: each one looks at the rank above
        for rank in range(k - 1, -1, -1):
            mine = number_entry(element(position), position, dtype, largest)
            above = kept[rank - 1] if rank else mine
            kept[rank] = tirx.max(kept[rank], tirx.min(above, mine))

    def block(first: Any, count: int) -> None:
        highest[0] = tirx.const(0, "uint32")
        with T.serial(0, count) as place:
            keys[place] = key_of(element(first + place), dtype, largest)
        with T.serial(0, count) as place:
            highest[0] = tirx.max(highest[0], keys[place])
        each = T.serial(0, count)
        with T.If(passes(highest[0])), T.Then(), each as place, T.If(passes(keys[place])), T.Then():
            insert(first + place)

    blocks(size, _BLOCK, block)
    return lambda rank: position_of(kept[rank])
