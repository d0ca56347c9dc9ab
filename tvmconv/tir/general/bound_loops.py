"""Reductions whose number of steps is known at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.annotations import BOUND, RANGE
from tvmconv.tir.general.conditions import conjuncts, is_select
from tvmconv.tir.general.rewrite import function_pass, rebuilt, replace_marked, substitute, uses
from tvmconv.tir.general.taps import bounds_of, distinct


def BoundLoops() -> Any:
    """A pass that ends marked loops at the bound that guards their operands.

    Pattern: a marked serial loop from 0 with guarded values ``if_then_else(step < bound, value,
    0)``. All guards have the same bound, which does not exceed the loop's extent. Steps beyond the
    bound add nothing. The guard may be one of several conditions.

    Rewrite: the bound becomes the loop's extent, and the guards are removed. Other conditions stay.
    A loop without such guards only loses its annotation.

    Loops marked with a range have comparisons of any linear form as guards, lower bounds included.
    They begin at the lower bound.

    Why here: a reduction of a tensor expression has a constant extent.
    """
    return function_pass("BoundLoops", _bound_loops)


def _bound_loops(func: Any) -> Any:
    rules = {BOUND: lambda loop, _: _bounded(loop), RANGE: lambda loop, _: _ranged(loop)}
    return replace_marked(func, rules)


def _ranged(loop: Any) -> Any:
    var = loop.loop_var
    guards: list[Any] = []

    def bounds_loop(condition: Any) -> bool:
        linear = uses(condition, var) and not bounds_of([condition], var, 0, 1)[1]
        if linear:
            guards.append(condition)
        return linear

    body = _unguarded(loop.body, bounds_loop)
    if not guards:
        return loop
    simplify = sym.Analyzer().simplify
    bounds, _ = bounds_of(distinct(guards), var, 0, int(loop.extent))
    first, last = map(simplify, bounds)
    body = substitute(body, {var: var + first})
    return rebuilt(loop, body=body, extent=simplify(last - first))


def _bounded(loop: Any) -> Any:
    bounds: list[Any] = []

    def bounds_loop(condition: Any) -> bool:
        if not isinstance(condition, tirx.LT) or not condition.a.same_as(loop.loop_var):
            return False
        if uses(condition.b, loop.loop_var):
            return False
        if bounds and not tvm_ffi.structural_equal(bounds[0], condition.b):
            return False
        bounds.append(condition.b)
        return True

    body = _unguarded(loop.body, bounds_loop)
    return rebuilt(loop, body=body, extent=bounds[0]) if bounds else loop


def _unguarded(stmt: Any, bounds_loop: Callable[[Any], bool]) -> Any:
    """A statement whose selections of zero lack the conditions that bound a loop."""

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

    return tvm_ffi.structural_map(stmt, (ir.Call, unguarded))
