"""Running maxima and minima that begin with an infinity."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.tir.general.rewrite import function_pass

_FLOATS = ("float16", "float32", "float64")


def InfiniteExtrema() -> Any:
    """A pass that lets maxima begin with minus infinity, and minima with infinity.

    Pattern: in a function with reductions, a store of a type's lowest or highest finite number to a
    buffer that a reduction's block writes, or of such a number as padding: where a condition fails.

    Rewrite: it stores the infinity of the same sign.

    Why here: TVM's reductions begin with the finite number, of which a maximum of nothing but minus
    infinity would consist. Schedules make initial values anew where they split a reduction, so that
    the pass follows them.
    """
    return function_pass("InfiniteExtrema", _infinite)


def _infinite(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, s_tir, tirx

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
    """Data or padding by an infinity, where the call is one of data or padding."""
    from tvm import tirx

    if not str(getattr(call.op, "name", "")).endswith("if_then_else"):
        return call
    inside, data, other = call.args
    other = _infinity(other)
    return call if other is None else tirx.if_then_else(inside, data, other)


def _infinity(value: Any) -> Any:
    """The infinity that a type's lowest or highest number stands for; None for other values."""
    from tvm import tirx

    dtype = str(value.ty.dtype)
    if not isinstance(value, tirx.FloatImm) or dtype not in _FLOATS:
        return None
    number, limits = float(value.value), np.finfo(dtype)
    if number not in (float(limits.min), float(limits.max)):
        return None
    return tirx.FloatImm(dtype, float(np.copysign(np.inf, number)))
