"""Multiplies depthwise taps as bytes, two taps at a time, for four columns at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.operators.products import TAP
from tvmconv.tir.general.rewrite import function_pass, nodes_of
from tvmconv.tir.neon.lane_products import added, half
from tvmconv.tir.neon.neighbor_lanes import by_runs, chains, place_of

# lanes of a vector of accumulators, and bytes of a vector of data
_LANES, _BYTES = 4, 16
# distance from the first to the last dword that a vector of data holds
_REACH = _BYTES - _LANES


def PairedTaps() -> Any:
    """A pass that adds the products of two taps in 16 bits, for accumulators of four columns.

    Pattern: consecutive stores, without a loop or a branch between them, of ``sum + tap(data,
    weight)`` to the accumulator, a vector of four int32. Four accumulators are combined if their
    taps have the same weights and consecutive data. A broadcast scalar may replace data.

    Rewrite: ``smull`` and ``smlal`` (``smull2`` and ``smlal2`` for the upper columns) multiply 16
    bytes of each of two taps. ``saddw`` and ``saddw2`` add the products to the four accumulators.
    Data are loaded as 16 bytes between the first and the last byte that the stores read. The last
    vector may overlap columns of the one before. Other taps are widened and multiplied.

    Why here: a vector of the layout has 4 bytes, but instructions multiply at least 8. Neighboring
    accumulators and the taps of each are known once tiles are unrolled and border tiles are
    separate code.
    """
    return function_pass("neon.PairedTaps", _paired)


@dataclass(frozen=True)
class _TapSum:
    """A store that adds one tap's product: the accumulator, and the tap's operands."""

    store: Any
    place: tuple[Any, int]
    data: Any
    weight: Any


def _paired(func: Any) -> Any:
    def single(call: Any) -> Any:
        if getattr(call.op, "name", "") != TAP:
            return call
        kind = str(call.ty.dtype)
        return tirx.Cast(kind, call.args[0]) * tirx.Cast(kind, call.args[1])

    calls = nodes_of(func.body, ir.Call)
    if not any(getattr(call.op, "name", "") == TAP for call in calls):
        return func
    body = by_runs(func.body, _rewritten)
    return func.with_body(tvm_ffi.structural_map(body, (ir.Call, single)))


def _rewritten(stores: Sequence[Any]) -> list[Any]:
    """The stores, with consecutive steps combined."""
    parts: list[Any] = []
    steps: list[_TapSum] = []
    for store in stores:
        step = _step(store)
        if step is not None:
            steps.append(step)
            continue
        parts += [*_together(steps), store]
        steps = []
    return [*parts, *_together(steps)]


def _step(store: Any) -> _TapSum | None:
    (index,) = store.indices if len(store.indices) == 1 else (None,)
    # accumulators in registers are buffers of vectors
    if not isinstance(index, tirx.IntImm) or int(store.value.ty.dtype.lanes) != _LANES:
        return None
    if not isinstance(store.value, tirx.Add):
        return None
    for total, tap in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        if getattr(getattr(tap, "op", None), "name", "") != TAP:
            continue
        if not isinstance(total, ir.expr.TensorLoad) or not total.source.same_as(store.buffer):
            continue
        if tvm_ffi.structural_equal(total.indices[0], index):
            return _TapSum(store, (store.buffer, int(index)), *tap.args)
    return None


def _together(steps: Sequence[_TapSum]) -> list[Any]:
    """Statements for steps, whose order is free because integers are summed."""
    taps: dict[tuple[Any, int], list[_TapSum]] = {}
    for step in steps:
        taps.setdefault(step.place, []).append(step)
    bounds = _bounds(steps)
    done: set[tuple[Any, int]] = set()
    parts: list[Any] = []
    for chain in chains(taps.values(), _are_neighbors):
        for begin in range(0, len(chain), _LANES):
            four = chain[max(0, min(begin, len(chain) - _LANES)) :][:_LANES]
            made = _products_of(four, bounds, done) if len(four) == _LANES else None
            if made is not None:
                parts += made
                done.update(each[0].place for each in four)
    return [*parts, *(step.store for step in steps if step.place not in done)]


def _bounds(steps: Sequence[_TapSum]) -> dict[Any, tuple[int, int]]:
    """The first and the last byte that is read of each row."""
    found: dict[Any, tuple[int, int]] = {}
    for step in steps:
        row, place = _place(step.data)
        if row is not None:
            first, last = found.get(row, (place, place))
            found[row] = min(first, place), max(last, place)
    return found


def _place(data: Any) -> tuple[Any, int]:
    """A row of a buffer, and an offset in it; None for other values."""
    if not isinstance(data, ir.expr.TensorLoad) or len(data.indices) != 1:
        return None, 0
    (ramp,) = data.indices
    if not isinstance(ramp, tirx.Ramp) or int(ramp.stride) != 1:
        return None, 0
    common, place = place_of(ramp.base)
    return (data.source, common), place


def _are_neighbors(one: Sequence[_TapSum], other: Sequence[_TapSum]) -> bool:
    """Whether two accumulators have the same taps with consecutive data."""
    if len(one) != len(other):
        return False
    for first, second in zip(one, other, strict=True):
        if not tvm_ffi.structural_equal(first.weight, second.weight):
            return False
        (row, place), (next_row, next_place) = _place(first.data), _place(second.data)
        loads = row is not None and next_row is not None
        if loads and (row != next_row or next_place - place != _LANES):
            return False
    return True


def _products_of(
    four: Sequence[Sequence[_TapSum]], bounds: Mapping[Any, tuple[int, int]], done: set[Any]
) -> list[Any] | None:
    """Stores that add the taps of four accumulators, two at a time, unless they are done."""
    factors = []
    for taps in zip(*four, strict=True):
        data = _row_of([tap.data for tap in taps], bounds)
        if data is None:
            return None
        dword = tirx.Broadcast(tirx.reinterpret("int32", taps[0].weight), _LANES)
        factors.append((data, tirx.reinterpret(f"int8x{_BYTES}", dword)))
    stores = []
    for first in range(0, len(factors), 2):
        sums = [_sum_of(factors[first : first + 2], upper) for upper in range(2)]
        for column, (step, *_) in enumerate(four):
            if step.place in done:
                continue
            (index,) = step.store.indices
            lanes = [_LANES * (column % 2) + i for i in range(_LANES)]
            wide = tirx.Cast(f"int32x{_LANES}", tirx.Shuffle([sums[column // 2]], lanes))
            total = added(tirx.BufferLoad(step.store.buffer, [index]), wide)
            stores.append(tirx.BufferStore(step.store.buffer, total, [index]))
    return stores


def _sum_of(factors: Sequence[tuple[Any, Any]], upper: int) -> Any:
    """The products of the lower or upper bytes of one or two taps, summed in 16 bits."""
    products = [
        tirx.call_llvm_pure_intrin(
            "int16x8", "llvm.aarch64.neon.smull.v8i16", half(data, upper), half(weight, upper)
        )
        for data, weight in factors
    ]
    return sum(products[1:], products[0])


def _row_of(values: Sequence[Any], bounds: Mapping[Any, tuple[int, int]]) -> Any:
    """The bytes of four columns as one vector; None if no load contains all of them."""
    places = [_place(value) for value in values]
    loads = [(value, *place) for value, place in zip(values, places, strict=True) if place[0]]
    others = [value for value, (row, _) in zip(values, places, strict=True) if row is None]
    if not all(isinstance(value, tirx.Broadcast) for value in others):
        return None
    if not all(tvm_ffi.structural_equal(value, others[0]) for value in others):
        return None
    vectors = [tirx.Broadcast(value.value, _BYTES) for value in others[:1]]
    if not loads:
        return vectors[0]
    value, row, place = loads[0]
    first, last = bounds[row]
    start = min(place, last - _REACH)
    held = all(other == row and 0 <= at - start <= _REACH for _, other, at in loads)
    if start < first or not held:
        return None
    (ramp,) = value.indices
    base = ramp.base + tirx.IntImm(str(ramp.base.ty.dtype), start - place)
    vectors.append(tirx.BufferLoad(value.source, [tirx.Ramp(base, ramp.stride, _BYTES)]))
    order: list[int] = []
    for row, at in places:
        begin = 0 if row is None else _BYTES * (len(vectors) - 1) + at - start
        order += range(begin, begin + _LANES)
    return vectors[0] if order == list(range(_BYTES)) else tirx.Shuffle(vectors, order)
