"""Reductions whose number of steps is an operand."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.annotations import BOUND
from tvmconv.tir.conditions import is_select
from tvmconv.tir.rewrite import function_pass, rebuilt, replace_marked, uses


def BoundLoops() -> Any:
    """A pass that ends marked loops where the guards in them begin to fail.

    Pattern: a marked serial loop from 0, in whose body stand values ``if_then_else(step < bound,
    value, 0)`` of the loop's variable and of one bound, which is the same for all steps and no
    larger than the loop's extent. Steps beyond it must add nothing.

    Rewrite: the bound is the loop's extent, and the guards are their values. A loop without such
    guards only loses its annotation.

    Why here: the extent of a tensor expression's reduction is a constant.
    """
    return function_pass("BoundLoops", _bound_loops)


def _bound_loops(func: Any) -> Any:
    return replace_marked(func, {BOUND: lambda loop, _value: _bounded(loop)})


def _bounded(loop: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    bounds: list[Any] = []

    def unguarded(call: Any) -> Any:
        if not is_select(call):
            return call
        condition, value, other = call.args
        if not isinstance(condition, tirx.LT) or not condition.a.same_as(loop.loop_var):
            return call
        if uses(condition.b, loop.loop_var) or getattr(other, "value", None) != 0:
            return call
        if bounds and not tvm_ffi.structural_equal(bounds[0], condition.b):
            return call
        bounds.append(condition.b)
        return value

    body = tvm_ffi.structural_map(loop.body, (ir.Call, unguarded))
    return rebuilt(loop, body=body, extent=bounds[0]) if bounds else loop
