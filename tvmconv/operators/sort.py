"""The largest or smallest elements in order.

A row is read once. Elements that come before the last of the ``k`` best so far are collected. A
full collection is sorted and merged with the best. If ``k`` is small, elements are inserted.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvmconv.operators.entries import Entries, entries_of
from tvmconv.operators.vector_loops import blocks, place_of, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T

# So many best elements are kept in order by insertion.
_INSERTED = 16
# Elements that are tested together: most blocks of a long row have none that counts.
_BLOCK = 64
_STATE = 3


def top_k(data: Any, k: int, axis: int, largest: bool, index_type: str = "int64") -> list[Any]:
    """Values and indices of the ``k`` largest elements along an axis, or of the smallest.

    Equal elements keep their order. NaN counts as larger than every number, as in numpy and torch;
    onnxruntime gives it no fixed place. ``k`` is at most the elements along ``axis``; it and the
    flags are as in ONNX's TopK.
    """
    shape = [int(size) for size in data.shape]
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

                entries = entries_of(element, size, data.dtype, largest)
                best = _inserted if k <= _INSERTED else _collected
                kept = best(entries, size, k)
                with T.serial(0, k) as rank:
                    position = entries.position(kept[rank])
                    values[(*before, rank, *after)] = element(position)
                    indices[(*before, rank, *after)] = tirx.Cast(index_type, position)
            return builder.get()

    types = [data.dtype, index_type]
    return te.extern([result, result], [data], write, dtype=types, name="top_k")


def _each_better(
    entries: Entries, size: int, last: Any, take: Callable[[Any], None], end: Callable[[], None]
) -> None:
    """Call ``take`` for positions that come before ``last``, and ``end`` after blocks of them.

    Elements are compared as vectors. In most blocks of a long row, no element passes.
    """
    order = entries.order

    def block(first: Any, count: int) -> None:
        with T.serial(0, count) as place:
            passes = entries.before(entries.make(first + place), last())
            with T.If(passes), T.Then():
                take(first + place)
        end()

    def tested(first: Any, count: int) -> None:
        assert order is not None
        highest[0] = tirx.const(0, "uint32")
        with T.serial(0, count) as place:
            orders[place] = order(first + place)
        with T.serial(0, count) as place:
            highest[0] = tirx.max(highest[0], orders[place])
        with T.If(tirx.Cast("int64", highest[0]) > entries.limit(last())), T.Then():
            with T.serial(0, count) as place:
                passes = tirx.Cast("int64", orders[place]) > entries.limit(last())
                with T.If(passes), T.Then():
                    take(first + place)
            end()

    take_block = block
    if order is not None:
        orders, highest = scratch(_BLOCK, "uint32"), scratch(1, "uint32")
        take_block = tested
    blocks(size, _BLOCK, take_block)


def _inserted(entries: Entries, size: int, k: int) -> Any:
    """The best entries, among which each one that belongs there is put at its place."""
    kept = scratch(k, entries.dtype)
    for rank in range(k):
        kept[rank] = entries.lowest

    def take(position: Any) -> None:
        # the last rank first: each one looks at the rank above
        for rank in range(k - 1, -1, -1):
            mine = entries.make(position)
            above = kept[rank - 1] if rank else mine
            kept[rank] = entries.shifted(above, kept[rank], mine)

    _each_better(entries, size, lambda: kept[k - 1], take, lambda: None)
    return kept


def _collected(entries: Entries, size: int, k: int) -> Any:
    """The best entries, merged with a collection of others whenever it is full."""
    capacity = min(max(k, _BLOCK), size)
    room = capacity + _BLOCK
    kept = scratch(2 * k, entries.dtype)
    found = scratch(2 * room + 1, entries.dtype)
    state = scratch(_STATE, "int32")
    count = scratch(1, "int32")
    count[0] = tirx.const(0, "int32")
    with T.serial(0, k) as rank:
        kept[rank] = entries.lowest

    def merge() -> None:
        half = _sorted(entries, found, room, count, state)
        state[0] = tirx.const(0, "int32")
        state[1] = tirx.const(0, "int32")
        with T.serial(0, k) as rank:
            sides = kept[state[0]], found[half + state[1]]
            open_ = tirx.const(True, "bool"), state[1] < count[0]
            takes, value = entries.merged(sides, open_)
            kept[k + rank] = value
            _advance(state, takes)
        with T.serial(0, k) as rank:
            kept[rank] = kept[k + rank]
        count[0] = tirx.const(0, "int32")

    def take(position: Any) -> None:
        found[count[0]] = entries.make(position)
        count[0] = count[0] + 1

    def end() -> None:
        with T.If(count[0] >= capacity), T.Then():
            merge()

    _each_better(entries, size, lambda: kept[k - 1], take, end)
    with T.If(count[0] > 0), T.Then():
        merge()
    return kept


def _sorted(entries: Entries, found: Any, room: int, count: Any, state: Any) -> Any:
    """Sort the first ``count`` entries of one half of a buffer; gives the offset of the result."""
    width, half = 1, 0
    if entries.order is not None:
        width, half = _BLOCK, room
        _ranked(found, room, count)
    while width < room:
        _merged(entries, found, half, room - half, width, count, state)
        half = room - half
        width *= 2
    return half


def _ranked(found: Any, room: int, count: Any) -> None:
    """Sort blocks of different numbers: a number's place is how many of its block come before."""
    place = scratch(1, "int32")
    with T.serial(0, (count[0] + _BLOCK - 1) // _BLOCK) as block:
        first = block * _BLOCK
        length = tirx.min(_BLOCK, count[0] - first)
        with T.serial(0, length) as index:
            place[0] = first
            with T.serial(0, length) as other:
                above = found[first + other] > found[first + index]
                place[0] = place[0] + tirx.Cast("int32", above)
            found[room + place[0]] = found[first + index]


def _merged(
    entries: Entries, found: Any, source: int, target: int, width: int, count: Any, state: Any
) -> None:
    """Merge neighboring sorted runs; for equal entries, the left run comes first."""
    with T.serial(0, (count[0] + 2 * width - 1) // (2 * width)) as pair:
        begin = pair * (2 * width)
        middle = tirx.min(begin + width, count[0])
        end = tirx.min(begin + 2 * width, count[0])
        state[0] = begin
        state[1] = middle
        with T.serial(0, end - begin) as place:
            sides = found[source + state[0]], found[source + state[1]]
            takes, value = entries.merged(sides, (state[0] < middle, state[1] < end))
            found[target + begin + place] = value
            _advance(state, takes)


def _advance(state: Any, takes: Any) -> None:
    """Go on in the left run, or in the right one if ``takes`` is 1."""
    state[2] = takes
    state[0] = state[0] + 1 - state[2]
    state[1] = state[1] + state[2]
