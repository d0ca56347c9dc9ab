"""Long rows that are reduced in the order of memory, a few rows at once."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import vectorize_loop
from tvmconv.tir.annotations import mark_last
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# so few rows are added at once only by a divisor of them
_FEW_ROWS = 8


def rows_at_once(rows: int) -> int:
    """Rows that are added to a row of results at once: a divisor, or fewer of them at the end."""
    divisors = (4, 6, 5, 8, 7, 3) if rows > _FEW_ROWS else (4, 6, 5, 8, 7, 3, 2)
    return next((count for count in divisors if rows % count == 0), 4 if rows > _FEW_ROWS else 1)


def add_rows(
    schedule: Schedule,
    rv: BlockRV,
    column: LoopRV,
    reduced: list[LoopRV],
    rows: int,
    machine: Machine,
) -> None:
    """Reduce long rows in the order of memory, a few rows at once.

    The results stay in the nearest cache. Groups of columns would read a short part of each row.
    """
    start = schedule.decompose_reduction(rv, reduced[0])
    vectorize_loop(schedule, schedule.get_loops(start)[-1], machine.lanes)
    count = int(schedule.get(reduced[-1]).extent)
    outer, inner = schedule.split(reduced[-1], [None, rows])
    if int(schedule.get(outer).extent) * rows > count:
        mark_last(schedule, outer)
    vectors = vectorize_loop(schedule, column, machine.lanes)
    lane = schedule.get_loops(rv)[-1]
    schedule.reorder(outer, *([vectors] if vectors else []), inner, lane)
    schedule.unroll(inner)
