"""Where to cut a loop, so that predicates have one outcome in each part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx

from tvmconv.algorithms.padding import LONG_ROW, MOST_COPIES
from tvmconv.tir.annotations import CASES, TAPS
from tvmconv.tir.general.rewrite import nodes_of
from tvmconv.tir.general.scope import Scope, fresh, open_conditions, outcomes, variables


def cuts(loop: Any, scope: Scope) -> list[tuple[int, int]]:
    """Ranges of a loop that become separate code; single iterations where conditions stay."""
    extent = int(loop.extent)
    if CASES not in loop.annotations or extent == 1:
        return [(0, extent)]
    probe = fresh(loop.loop_var)
    bounded: list[Any] = []

    def settled(begin: int, end: int) -> bool:
        inner = scope.inside(loop.loop_var, probe, begin, end)
        return not any(
            any(v.same_as(probe) for v in names)
            and not any(v.same_as(tap) for v in names for tap in bounded)
            for condition, _ in open_conditions(loop.body, inner)
            if (names := variables(condition))
        )

    found = _longest(0, extent, settled)
    if len(found) > MOST_COPIES and (taps := long_rows(loop.body)):
        # loops over long rows of taps have bounds in place of predicates
        bounded += [tap.loop_var for tap in taps]
        found = _longest(0, extent, settled)
    return found if len(found) <= MOST_COPIES else [(0, extent)]


def long_rows(stmt: Any) -> list[Any]:
    """The loops over many columns of a kernel."""
    return [
        loop
        for loop in nodes_of(stmt, tirx.For)
        if str(loop.annotations.get(TAPS, "")) == "columns" and int(loop.extent) >= LONG_ROW
    ]


def interior(loop: Any, scope: Scope) -> tuple[Any, int, int] | None:
    """An outer loop, and its longest range that decides predicates in this loop.

    Only predicates count that depend on outer loops and on unrolled loops. None if no outer loop
    decides any.
    """
    within = scope.inside(loop.loop_var, fresh(loop.loop_var), 0, int(loop.extent))

    def outside(condition: Any, written_out: tuple[Any, ...]) -> list[Any] | None:
        names = variables(condition)
        free = [v for v in names if not any(v.same_as(other) for other in written_out)]
        return free if all(map(scope.defines, free)) else None

    def is_settled(var: Any, around: Scope) -> bool:
        return not any(
            any(v.same_as(var) for v in outside(condition, constants) or ())
            for condition, constants in open_conditions(loop.body, around)
        )

    for var, begin, end in scope.ranges:
        if is_settled(var, within):
            continue

        def settled(begin: int, end: int, var: Any = var) -> bool:
            return is_settled(var, within.within(var, begin, end))

        begin, end = max(_longest(begin, end, settled), key=lambda part: part[1] - part[0])
        return (var, begin, end) if end - begin > 1 else None
    return None


def uniform_cuts(loop: Any, scope: Scope) -> list[tuple[int, int]]:
    """Ranges of an unrolled loop in which every condition has one outcome.

    The rewrite makes few statements for many iterations, because the passes that follow are slow.
    """
    var, extent = loop.loop_var, int(loop.extent)
    if any(var.same_as(other) for other in scope.written_out):
        return [(i, i + 1) for i in range(extent)]
    known = [outcomes(loop.body, scope.fixing(var, i)) for i in range(extent)]
    starts = [i for i in range(extent) if i == 0 or known[i] != known[i - 1]]
    return list(zip(starts, [*starts[1:], extent], strict=True))


def _longest(begin: int, end: int, settled: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """The longest ranges of a loop that are settled; single iterations otherwise."""

    def halve(first: int, last: int) -> list[tuple[int, int]]:
        if last - first == 1 or settled(first, last):
            return [(first, last)]
        middle = (first + last) // 2
        return halve(first, middle) + halve(middle, last)

    found: list[tuple[int, int]] = []
    for first, last in halve(begin, end):
        if found and settled(found[-1][0], last):
            first = found.pop()[0]
        found.append((first, last))
    return found
