"""Combines the lanes of partial results in a tree."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tvmconv.tir.annotations import COMBINE
from tvmconv.tir.general.rewrite import function_pass, local_buffer, replace_marked, uses

_COMBINED = (tirx.Add, tirx.Mul, tirx.Max, tirx.Min)


def CombineLanes() -> Any:
    """A pass that combines the lanes of a vector of partial results in few steps.

    Pattern: a marked loop over neighboring partial results, a power of two of them. Its body adds
    one to a result, multiplies, or keeps the maximum or minimum.

    Rewrite: the upper half of the vector is combined with the lower half, and so on, until one lane
    is left. The result is combined with this lane. Loops that do not fit the pattern are unchanged.

    Why here: LLVM keeps the order of floating-point sums, so that each lane would wait for the
    previous one.
    """
    return function_pass("CombineLanes", _combine_lanes)


def _combine_lanes(func: Any) -> Any:
    return replace_marked(func, {COMBINE: lambda loop, _value: _combined(loop) or loop})


def _combined(loop: Any) -> Any:
    """The statements that take the place of a loop; None if it does not fit the pattern."""
    store, lanes = loop.body, int(loop.extent)
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, _COMBINED):
        return None
    kept, part = store.value.a, store.value.b
    if not isinstance(part, ir.TensorLoad) or lanes & (lanes - 1):
        return None
    *outer, last = part.indices
    if not last.same_as(loop.loop_var) or any(uses(index, last) for index in outer):
        return None
    if any(uses(index, last) for index in store.indices) or uses(kept, last):
        return None
    operation, dtype = type(store.value), str(part.source.dtype)
    statements: list[Any] = []
    vector = tirx.BufferLoad(part.source, [*outer, _ramp(0, lanes)])
    while lanes > 1:
        whole = local_buffer((lanes,), dtype, "lanes")
        statements.append(tirx.AllocBuffer(whole))
        statements.append(tirx.BufferStore(whole, vector, [_ramp(0, lanes)]))
        lanes //= 2
        lower, upper = (tirx.BufferLoad(whole, [_ramp(first, lanes)]) for first in (0, lanes))
        vector = operation(lower, upper)
    result = tirx.BufferStore(store.buffer, operation(kept, vector), store.indices)
    return tirx.SeqStmt([*statements, result])


def _ramp(first: int, lanes: int) -> Any:
    start, one = (tirx.IntImm("int32", value) for value in (first, 1))
    return tirx.Ramp(start, one, lanes) if lanes > 1 else start
