"""Finds the taps of a kernel row that are inside the image, for each position of a tile.

A part of :func:`tvmconv.tir.general.specialize.Specialize`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import product
from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvmconv.tir.general.rewrite import nodes_of, substitute
from tvmconv.tir.general.scope import Scope, is_unrolled, outcomes, variables


def same_taps(loop: Any, scope: Scope) -> list[tuple[int, int]]:
    """Ranges of a loop over taps in which the same positions of the tile are inside the image.

    The result has ranges, not single taps. Consecutive unrolled taps would read the same positions,
    and the compiler would keep these in registers from one tap to the next.
    """
    var, extent = loop.loop_var, int(loop.extent)
    known = [_pixel_outcomes(loop.body, scope.fixing(var, i)) for i in range(extent)]
    starts = [i for i in range(extent) if i == 0 or known[i] != known[i - 1]]
    return list(zip(starts, [*starts[1:], extent], strict=True))


def _pixel_outcomes(stmt: Any, scope: Scope) -> tuple[int, ...]:
    """:func:`outcomes` for every iteration of the unrolled loops that conditions depend on."""
    if isinstance(stmt, tirx.SeqStmt):
        return tuple(known for part in stmt.seq for known in _pixel_outcomes(part, scope))
    if not isinstance(stmt, tirx.For):
        return tuple(outcomes(stmt, scope))
    var, extent = stmt.loop_var, int(stmt.extent)
    memo = scope.memo
    conditions = memo.conditions(stmt.body)
    used = (v for condition in conditions for v in memo.variables(condition).values())
    if is_unrolled(stmt) and any(var.same_as(v) for v in used):
        steps = (_pixel_outcomes(stmt.body, scope.fixing(var, i)) for i in range(extent))
        return tuple(known for step in steps for known in step)
    return _pixel_outcomes(stmt.body, scope.inside(var, var, 0, extent))


def distinct(conditions: Sequence[Any]) -> list[Any]:
    """Some conditions without duplicates."""
    kept: list[Any] = []
    for condition in conditions:
        if not any(tvm_ffi.structural_equal(condition, other) for other in kept):
            kept.append(condition)
    return kept


def bounds_of(
    guards: Sequence[Any], var: Any, begin: int, end: int
) -> tuple[tuple[Any, Any], list[Any]]:
    """Begin and end of the range in which the guards of a loop hold, and guards without a bound.

    ``begin`` and ``end`` are the range of all iterations. A comparison gives a bound if it is
    linear in the variable. In an empty range the end does not exceed the begin.
    """
    first, last = _constant(var, begin), _constant(var, end)
    left = []
    for guard in guards:
        least = _slack(guard)
        linear = [] if least is None else list(sym.detect_linear_equation(least, [var]))
        step = linear[0] if linear else None
        if not isinstance(step, tirx.IntImm) or int(step) == 0:
            left.append(guard)
        elif int(step) > 0:
            first = tirx.max(first, -tirx.floordiv(linear[1], step))
        else:
            last = tirx.min(last, tirx.floordiv(linear[1], -step) + 1)
    return (first, last), left


def varying_taps(
    loop: Any, found: Sequence[tuple[Any, tuple[Any, ...]]], inner: Any, scope: Scope
) -> tuple[list[Any], list[Any]] | None:
    """Where a loop over columns reads the image, if that depends on outer loops.

    The result has the ends of three ranges of taps, and conditions that hold in the second range.
    There, all positions of the tile are inside the image. Before the first range and after the last
    one, none is. None if a condition is not linear.

    Parameters
    ----------
    loop
        The loop over taps.
    found
        The open conditions in the loop, and the variables of unrolled loops around each.
    inner
        The new variable of the loop.
    scope
        The scope inside the loop.
    """
    extent = int(loop.extent)
    nests = [nest for nest in nodes_of(loop.body, tirx.For) if is_unrolled(nest)]
    unrolled = {nest.loop_var: int(nest.extent) for nest in nests}
    begin, end = _constant(inner, 0), _constant(inner, extent)
    any_begin, all_begin, all_end, any_end = begin, begin, end, end
    inside: list[Any] = []
    for condition in distinct([condition for condition, _ in found]):
        tile = {var: unrolled[var] for var in variables(condition) if var in unrolled}
        slack = _slack(condition)
        if slack is None or not sym.detect_linear_equation(slack, [inner, *tile]):
            return None
        cases = {
            place: substitute(condition, dict(zip(tile, place, strict=True)))
            for place in product(*map(range, tile.values()))
        }
        if not all(map(scope.defines, cases.values())):
            return None
        inside += cases.values()
        corners = product(*({0, size - 1} for size in tile.values()))
        bounds = [bounds_of([cases[corner]], inner, 0, extent)[0] for corner in corners]
        begins, ends = ([pair[side] for pair in bounds] for side in (0, 1))
        all_begin = tirx.max(all_begin, reduce(tirx.max, begins))
        any_begin = tirx.max(any_begin, reduce(tirx.min, begins))
        all_end = tirx.min(all_end, reduce(tirx.min, ends))
        any_end = tirx.min(any_end, reduce(tirx.max, ends))
    # ranges may be empty, but they follow each other
    any_end = tirx.max(any_begin, any_end)
    all_begin = tirx.min(all_begin, any_end)
    all_end = tirx.max(all_begin, tirx.min(all_end, any_end))
    ranges = (any_begin, all_begin, all_end, any_end)
    return [scope.analyzer.simplify(place) for place in ranges], inside


def _slack(guard: Any) -> Any:
    """An expression that is not negative where a comparison of integers holds; None for others."""
    if isinstance(guard, tirx.LE | tirx.GE):
        low, high = (guard.a, guard.b) if isinstance(guard, tirx.LE) else (guard.b, guard.a)
        return high - low
    if isinstance(guard, tirx.LT | tirx.GT):
        low, high = (guard.a, guard.b) if isinstance(guard, tirx.LT) else (guard.b, guard.a)
        return high - low - 1
    return None


def _constant(var: Any, value: int) -> Any:
    return tirx.IntImm(var.ty.dtype, value)
