"""Reductions whose number of steps is known at run time."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.annotations import BOUND
from tvmconv.tir.general.conditions import conjuncts, is_select
from tvmconv.tir.general.rewrite import function_pass, rebuilt, replace_marked, uses


def BoundLoops() -> Any:
    """A pass that ends marked loops at the bound that guards their operands.

    Pattern: a marked serial loop from 0 with guarded values ``if_then_else(step < bound, value,
    0)``. All guards have the same bound, which does not exceed the loop's extent. Steps beyond the
    bound add nothing. The guard may be one of several conditions.

    Rewrite: the bound becomes the loop's extent, and the guards are removed. Other conditions stay.
    A loop without such guards only loses its annotation.

    Why here: a reduction of a tensor expression has a constant extent.
    """
    return function_pass("BoundLoops", _bound_loops)


def _bound_loops(func: Any) -> Any:
    return replace_marked(func, {BOUND: lambda loop, _value: _bounded(loop)})


def _bounded(loop: Any) -> Any:
    bounds: list[Any] = []

    def unguarded(call: Any) -> Any:
        if not is_select(call):
            return call
        condition, value, other = call.args
        if getattr(other, "value", None) != 0:
            return call
        kept = [part for part in conjuncts(condition) if not bounds_loop(part)]
        if not kept:
            return value
        return tirx.if_then_else(tirx.all(*kept), value, other)

    def bounds_loop(condition: Any) -> bool:
        if not isinstance(condition, tirx.LT) or not condition.a.same_as(loop.loop_var):
            return False
        if uses(condition.b, loop.loop_var):
            return False
        if bounds and not tvm_ffi.structural_equal(bounds[0], condition.b):
            return False
        bounds.append(condition.b)
        return True

    body = tvm_ffi.structural_map(loop.body, (ir.Call, unguarded))
    return rebuilt(loop, body=body, extent=bounds[0]) if bounds else loop
