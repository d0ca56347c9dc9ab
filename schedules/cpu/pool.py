"""Max pooling of INT8: maxima over rows by whole vectors, then over columns by position."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.operators.pool import LINES
from tvmconv.schedules.common.nest import (
    PARALLEL_ELEMENTS,
    blocks,
    parallelize,
    vectorize_loop,
)
from tvmconv.schedules.common.threads import bands_outside
from tvmconv.tir.annotations import mark_cases
from tvmconv.tvm_api.types import LoopRV, PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule pooling whose maxima over rows are a separate block; None for other functions.

    1. The maxima of a row's positions stay in L1 and have no borders. They use whole vectors, which
       have several positions.
    2. Each window compares as many of them as it has columns. Positions whose windows cross the
       border are separate code.
    3. Threads share images, bands of rows, and blocks.
    """
    from tvmconv.tvm_api.s_tir import Schedule, ScheduleError, is_output_block

    schedule = Schedule(func, enable_check=False)
    if not any(block.name == LINES for block in blocks(schedule)):
        return None
    for block in blocks(schedule):
        if block.name == LINES or is_output_block(schedule, block.rv):
            continue
        try:
            schedule.compute_inline(block.rv)
        except ScheduleError:
            return None
    found = blocks(schedule)
    if [block.name == LINES for block in found] != [True, False] or found[1].kinds != "SSSSS":
        return None
    lines, pool = found
    image, channels, row, pixel, lane = pool.loops
    outer: list[LoopRV] = [image, channels, row]
    if pool.extents[0] == 1 and machine.cores > 1 and pool.work >= PARALLEL_ELEMENTS:
        read = schedule.get(lines.rv).reads[0].source.shape
        row_bytes = int(read[2]) * int(read[3]) * int(read[4]) // pool.extents[2]
        outer = [image, *bands_outside(schedule, channels, row, machine, row_bytes, overlap=True)]
    row = outer[-1]
    schedule.compute_at(lines.rv, row, preserve_unit_loops=True)
    schedule.set_scope(lines.rv, 0, "local")
    vectorize_loop(
        schedule, schedule.fuse(*schedule.get_loops(lines.rv)[-2:]), machine.vector_bytes
    )
    schedule.vectorize(lane)
    mark_cases(schedule, pixel)
    parallelize(schedule, outer, pool.work, machine.cores)
    return schedule
