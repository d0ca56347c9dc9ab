"""Running maxima and minima that start at an infinity."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import function_pass

_FLOATS = ("float16", "float32", "float64")


def InfiniteExtrema() -> Any:
    """A pass that starts maxima at minus infinity, and minima at infinity.

    Pattern: a store of a type's lowest or highest finite number, in a function with reductions. The
    store initializes the buffer of a reduction, or pads where a condition fails.

    Rewrite: it stores the infinity of the same sign.

    Why here: TVM starts reductions at the finite number, which is wrong for a maximum of minus
    infinities. The pass runs after schedules, which create initial values where they split a
    reduction. On GPUs it runs after LowerCrossThreadReduction, which knows a maximum by the finite
    number, and before LowerInitBlock.
    """
    return function_pass("InfiniteExtrema", _infinite)


def _infinite(func: Any) -> Any:
    reduced: set[Any] = set()

    def collect(block: Any) -> None:
        if any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars):
            reduced.update(region.source for region in block.writes)

    def begin(store: Any) -> Any:
        value = _infinity(store.value) if store.buffer in reduced else None
        return store if value is None else tirx.BufferStore(store.buffer, value, store.indices)

    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, collect))
    if not reduced:
        return func
    rules = [(tirx.BufferStore, begin), (ir.Call, _padded)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules, order="post"))


def _padded(call: Any) -> Any:
    """Data or padding by an infinity; other calls are unchanged."""
    if not is_select(call):
        return call
    inside, data, other = call.args
    other = _infinity(other)
    return call if other is None else tirx.if_then_else(inside, data, other)


def _infinity(value: Any) -> Any:
    """The infinity that replaces a type's lowest or highest number; None for other values."""
    dtype = str(value.ty.dtype)
    if not isinstance(value, tirx.FloatImm) or dtype not in _FLOATS:
        return None
    number, limits = float(value.value), np.finfo(dtype)
    if number not in (float(limits.min), float(limits.max)):
        return None
    return tirx.FloatImm(dtype, float(np.copysign(np.inf, number)))
