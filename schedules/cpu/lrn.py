"""Local response normalization on the blocked layout."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import blocks, has_operator, parallelize, vectorize_loop
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule the blocked form of ``tvmconv.operators.lrn``.

    1. The squares of one position's channels stay in a small buffer in L1.
    2. Squares and results are vectorized over channels.
    3. Threads share image rows.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    found = blocks(schedule)
    if len(found) != 2 or not has_operator(schedule, found[1], "lrn"):
        return None
    squares, result = found
    if result.kinds != "SSSSS" or squares.kinds != "SSSS":
        return None
    n, channel_block, h, w, lane = result.loops
    schedule.reorder(n, h, w, channel_block, lane)
    parallelize(schedule, [n, h], result.work, machine.cores)
    schedule.compute_at(squares.rv, w, preserve_unit_loops=True)
    vectorize_loop(schedule, schedule.get_loops(squares.rv)[-1], machine.lanes)
    schedule.vectorize(lane)
    return schedule
