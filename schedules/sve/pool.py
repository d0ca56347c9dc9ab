"""Pooling by scalable vectors of the pixels of a row.

Four vectors of pixels at a time, each with all taps of its windows, as in FTEngine (Tan 2023,
section 3.2.1). With a stride pixels are gathered; a coordinate that max pooling clamps is that of
its lane, and an average's divisor, where it differs, is computed for each lane.
"""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import Block, blocks, has_operator, inline_injective, parallelise
from tvmconv.tir.annotations import mark_segments
from tvmconv.tvm_api.types import PrimFunc, Schedule

_VECTORS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule pooling whose rows fill a vector; None leaves others to NEON's rules.

    1. Windows of few taps are one expression: the loop over a row's pixels goes by vectors.
    2. Larger ones are a reduction: the sums of some vectors stay in registers.
    3. Images, blocks and rows are shared between the threads.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    pool = next((b for b in found if has_operator(schedule, b, "max_pool", "avg_pool")), None)
    if pool is None or not _fits(pool, machine):
        return None
    if len(found) == 1 and pool.kinds == "SSSSS":
        *outer, pixel, lane = pool.loops
        schedule.vectorize(lane)
        parallelise(schedule, outer, pool.work, machine.cores)
        mark_segments(schedule, pixel, _VECTORS)
        return schedule
    if pool.kinds != "SSSSSRR" or len(found) > 2 or found[0].name != pool.name:
        return None
    if len(found) == 1:
        store = schedule.cache_write(pool.rv, 0, "global")
    else:
        store = found[1].rv
        if not found[1].is_spatial or found[1].extents != pool.extents[:5]:
            return None
    *outer, pixel, lane, row, column = schedule.get_loops(pool.rv)
    schedule.reorder(*outer, pixel, row, column, lane)
    parallelise(schedule, outer, pool.work, machine.cores)
    register_tile(schedule, pool.rv, store, at=pixel, reduction=row, tile=(), lane=lane)
    mark_segments(schedule, pixel, _VECTORS)
    return schedule


def _fits(pool: Block, machine: Machine) -> bool:
    """Whether a vector has several pixels, and a row at least so many."""
    extents = pool.extents
    return all(extents) and extents[3] >= machine.segments > 1 and extents[4] == machine.lanes
