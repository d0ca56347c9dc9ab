"""Pooling by scalable vectors of the positions of a row.

Some vectors of positions are computed at a time, each with all taps of its windows, as in FTEngine
(Tan 2023, section 3.2.1). Rows of a tile share what their windows read. Strided positions are
gathered. Coordinates that max pooling clamps are computed for each lane. NEON code is for pooling
that it reads sooner (:mod:`tvmconv.costs.scalable.pool`).
"""

from __future__ import annotations

from tvmconv.costs.scalable.pool import scalable_rows
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import (
    Block,
    annotation,
    blocks,
    has_operator,
    inline_injective,
    parallelize,
)
from tvmconv.tir.annotations import mark_segments
from tvmconv.tvm_api.types import PrimFunc, Schedule

_VECTORS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule pooling whose rows fill a vector; None leaves others to NEON's rules.

    1. Windows of few taps are one expression: the loop over a row's positions is vectorized, for
       several rows whose windows overlap. NEON code stays where it reads its taps sooner.
    2. Larger windows are a reduction: the accumulators of some vectors stay in registers.
    3. Threads share images, blocks and rows.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    pool = next((b for b in found if has_operator(schedule, b, "max_pool", "avg_pool")), None)
    if pool is None or not _fits(pool, machine):
        return None
    if len(found) == 1 and pool.kinds == "SSSSS":
        rows = _rows(schedule, pool, machine)
        if not rows:
            return None
        *outer, height, pixel, lane = pool.loops
        height, row = schedule.split(height, [None, rows])
        schedule.reorder(height, pixel, row, lane)
        schedule.unroll(row)
        schedule.vectorize(lane)
        parallelize(schedule, [*outer, height], pool.work, machine.cores)
        mark_segments(schedule, pixel, max(1, _VECTORS // rows))
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
    parallelize(schedule, outer, pool.work, machine.cores)
    register_tile(schedule, pool.rv, store, at=pixel, reduction=row, tile=(), lane=lane)
    mark_segments(schedule, pixel, _VECTORS)
    return schedule


def _fits(pool: Block, machine: Machine) -> bool:
    """Whether a vector has several positions, and a row at least as many."""
    extents = pool.extents
    return all(extents) and extents[3] >= machine.segments > 1 and extents[4] == machine.lanes


def _rows(schedule: Schedule, pool: Block, machine: Machine) -> int:
    """Rows of a tile; 0 for NEON code."""
    window = annotation(schedule, pool, "tvmconv.window")
    if window is None:
        return 1
    is_max = has_operator(schedule, pool, "max_pool")
    size = (pool.extents[2], pool.extents[3])
    return scalable_rows(tuple(int(part) for part in window), is_max, size, machine)
