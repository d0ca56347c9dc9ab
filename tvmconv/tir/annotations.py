"""Marks by which schedules ask for what `specialise` and the passes of tvmconv.compile do."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.prefetch_results import RESULT
from tvmconv.tir.prefetch_streams import PANEL, STREAM
from tvmconv.tir.tails import TAIL
from tvmconv.tir.transposes import TRANSPOSE

CASES = "tvmconv.cases"
TAPS = "tvmconv.taps"
PARALLEL = "tvmconv.parallel"
PREFETCH = "tvmconv.prefetch"
MARKS = (CASES, TAPS, PARALLEL, PREFETCH)


def mark_cases(schedule: Any, *loops: Any) -> None:
    """Let border iterations of these loops become separate code."""
    for loop in loops:
        schedule.annotate(loop, CASES, 1)


def mark_taps(schedule: Any, rows: Any, columns: Any = None) -> None:
    """Name the reduction loops over kernel rows (or planes) and, inside, columns.

    Where a read's predicate fails, the read must contribute nothing to the reduction. Columns
    left out keep their predicates in the border copies.
    """
    schedule.annotate(rows, TAPS, "rows")
    if columns is not None:
        schedule.annotate(columns, TAPS, "columns")


def mark_parallel(schedule: Any, *loops: Any) -> None:
    """Fuse these perfectly nested outer loops into one parallel loop."""
    for loop in loops:
        schedule.annotate(loop, PARALLEL, 1)


def mark_prefetch(schedule: Any, loop: Any, *, inputs: bool, weights: bool) -> None:
    """Ask for the next inputs and weights in the innermost reduction loop."""
    if inputs or weights:
        schedule.annotate(loop, PREFETCH, [int(inputs), int(weights)])


def mark_stream(schedule: Any, loop: Any, distance: int) -> None:
    """Prefetch the vector operand of an innermost reduction loop, so many bytes ahead."""
    schedule.annotate(loop, STREAM, distance)


def mark_panel(schedule: Any, tiles: Any) -> None:
    """Prefetch the next panel of the vector operand in this loop over the tiles that use one."""
    schedule.annotate(tiles, PANEL, 1)


def mark_transpose(schedule: Any, loop: Any) -> None:
    """Copy vectors along this loop to vectors along the vectorised one inside, or the reverse."""
    schedule.annotate(loop, TRANSPOSE, 1)


def mark_result(schedule: Any, tiles: Any) -> None:
    """Prefetch what each tile of this loop will write before its reduction starts."""
    schedule.annotate(tiles, RESULT, 1)


def mark_tail(schedule: Any, outer: Any, width: int, rest: int) -> None:
    """Ask for a shorter last vector instead of a test of every element.

    Without it the code is right, but scalar.
    """
    schedule.annotate(outer, TAIL, [width, rest])
