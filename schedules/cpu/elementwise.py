"""Element-wise and other injective functions: the fallback rule."""

from __future__ import annotations

from math import gcd, prod

from tvmconv.machines.record import Machine
from tvmconv.operators.lookup import LOOKUP
from tvmconv.schedules.common.nest import (
    PARALLEL_ELEMENTS,
    Block,
    blocks,
    inline_injective,
    parallelise,
    vectorise,
)
from tvmconv.tir.general.axes import collapsible_axes
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a function whose blocks, after inlining, are all spatial.

    1. Intermediates are inlined.
    2. Inner axes that every access traverses in storage order are fused, so that short image rows
       do not leave short vectors.
    3. The fused loop is vectorized, and threads share the outer loops.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    if not all(block.is_spatial and all(block.extents) for block in found):
        return None
    for block in found:
        spatial_block(schedule, block, machine)
    return schedule


def _shared(extents: list[int], machine: Machine) -> int:
    """The number of outer loops that are fused to the loop that threads share.

    Not all of them: a single loop over all vectors needs two or three divisions for each, half of
    the instructions of a pooling window.
    """
    enough = 4 * machine.cores if machine.cores > 1 else 1
    counts = range(1, len(extents) + 1)
    return next((count for count in counts if prod(extents[:count]) >= enough), len(extents))


def spatial_block(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Parallel outer loops and a vectorized inner loop for a block without reduction."""
    loops, extents = list(block.loops), list(block.extents)
    if not loops:
        return
    bytes_ = LOOKUP in schedule.get(block.rv).annotations
    lanes = machine.vector_bytes if bytes_ else machine.lanes
    first = collapsible_axes(schedule.get(block.rv))
    wide = machine.cores > 1 and block.work >= PARALLEL_ELEMENTS
    if prod(extents[first:]) % lanes:
        # a remainder inside a shared loop would be tested in every iteration
        while wide and first < len(loops) - 1 and prod(extents[:first]) < 2 * machine.cores:
            first += 1
    inner = schedule.fuse(*loops[first:]) if len(loops) - first > 1 else loops[first]
    count = prod(extents[first:])
    outer = loops[:first]
    if prod(extents[:first]) >= 2 * machine.cores or not wide:
        if outer:
            shared = _shared(extents[:first], machine)
            parallelise(schedule, outer[:shared], block.work, machine.cores)
        vectorise(schedule, inner, lanes)
        return
    step = gcd(count, lanes)
    if step < 4:
        # too few rows to share and no whole vectors: vectorize on one thread
        vectorise(schedule, inner, lanes)
        return
    vectors, lane = schedule.split(inner, [None, step])
    schedule.vectorize(lane)
    parallelise(schedule, [*outer, vectors], block.work, machine.cores)
