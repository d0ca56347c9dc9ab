"""The largest or smallest elements in order.

One element is found by two reductions. If ``k`` is small, elements of a long row that come before
the last of the ``k`` best so far are inserted. The best of its first elements, or of a short row,
are selected before: by ranks, or :mod:`tvmconv.operators.few_best`. For other ``k``, the best are
selected by their keys, and sorted. Few elements of columns, and of short rows of 64-bit elements,
are :mod:`tvmconv.operators.best_of_lanes`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvmconv.operators.entries import is_wide, key_bits, key_of, number_entry, position_of
from tvmconv.operators.few_best import FewBest, are_few, fits_parts
from tvmconv.operators.registers import LANES
from tvmconv.operators.row_vectors import RowVectors
from tvmconv.operators.selection import Selection
from tvmconv.operators.vector_loops import blocks, place_of, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T

# So many best elements are kept in order by insertion.
_INSERTED = 16
# The first elements, of so many vectors, are ranked if at least so many are wanted: most of them
# would be inserted, and branches mispredicted.
_RANKED, _SEVERAL = 2, 4
# Longest row that is read twice for one element.
_TWICE = 2048
# Elements whose best are selected before others are inserted.
_FIRST = 2048
# Longest row into which very few elements are inserted as fast as they are selected.
_SHORT = 192
# Elements that are tested together: most blocks of a long row have none that counts.
_BLOCK = 64


def top_k(
    data: Any,
    k: int,
    axis: int,
    largest: bool,
    index_type: str = "int64",
    lanes: int = LANES,
) -> list[Any]:
    """Values and indices of the ``k`` largest elements along an axis, or of the smallest.

    Equal elements keep their order. NaN counts as larger than every number, as in numpy and torch;
    onnxruntime gives it no fixed place. ``k`` is at most the elements along ``axis``; it and the
    flags are as in ONNX's TopK. ``lanes`` are the FP32 numbers of a vector.
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

                def key(position: Any) -> Any:
                    return tirx.Cast(kind, key_of(element(position), dtype, largest))

                bits = key_bits(dtype)
                # vectors of short keys have more elements
                kind = f"uint{bits}"
                inserts = k <= _INSERTED and not is_wide(dtype)
                if k == 1 and size <= _TWICE:
                    position_at = _best(key, size, kind)
                elif inserts and (k == 1 or (k < _SEVERAL and size <= _SHORT)):
                    position_at = _inserted(element, size, k, dtype, largest)
                else:
                    few, first = are_few(size, k, lanes), size
                    if inserts:
                        first = min(size, _FIRST if few else max(k, _RANKED * lanes))
                    best: Selection
                    if fits_parts(first, k):
                        best = FewBest(key, first, k, kind, bits, lanes)
                    else:
                        best = Selection(key, first, k, kind, bits)
                    position_at = best.ordered().__getitem__
                    if first < size:
                        ranked = first, position_at
                        position_at = _inserted(element, size, k, dtype, largest, ranked)
                with T.serial(0, k) as rank:
                    position = position_at(rank)
                    values[(*before, rank, *after)] = element(position)
                    indices[(*before, rank, *after)] = tirx.Cast(index_type, position)
            return builder.get()

    types = [data.dtype, index_type]
    return te.extern([result, result], [data], write, dtype=types, name="top_k")


def _best(key: Callable[[Any], Any], size: int, kind: str) -> Callable[[Any], Any]:
    """The position of the first one of the largest keys."""
    rows, highest = RowVectors(size, LANES), scratch(1, kind)
    highest[0] = rows.reduced(tirx.const(0, kind), key, tirx.max)
    last = tirx.const((1 << 31) - 1, "int32")

    def place(position: Any) -> Any:
        found = key(position) == highest[0]
        return tirx.Select(found, tirx.Cast("int32", position), last)

    first = rows.reduced(last, place, tirx.min)
    return lambda _: first


def _inserted(
    element: Callable[[Any], Any],
    size: int,
    k: int,
    dtype: str,
    largest: bool,
    before: tuple[int, Callable[[Any], Any] | None] = (0, None),
) -> Callable[[Any], Any]:
    """The position of each rank among the best entries, of which each was put at its place.

    ``before`` gives how many first elements are ranked already, and the positions of their best.
    """
    begin, ranked = before
    kept = scratch(k, "uint64")
    for rank in range(k):
        # zero comes after all others
        kept[rank] = tirx.const(0, "uint64")
        if ranked is not None:
            kept[rank] = number_entry(element(ranked(rank)), ranked(rank), dtype, largest)
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

    blocks(size - begin, _BLOCK, lambda start, count: block(begin + start, count))
    return lambda rank: position_of(kept[rank])
