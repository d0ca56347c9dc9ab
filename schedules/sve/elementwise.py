"""Element-wise functions of whole blocks by scalable vectors.

Where every access runs over pixels and channels in storage order, these are one loop over pixels
of four channels each, and the last vector is masked. Others have NEON code.
"""

from __future__ import annotations

from math import prod

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, inline_injective, parallelise
from tvmconv.schedules.cpu import elementwise as neon
from tvmconv.tir.annotations import mark_segments
from tvmconv.tir.general.axes import collapsible_axes
from tvmconv.tvm_api.types import PrimFunc, Schedule

# vectors of one step: enough that loads and stores of several are under way
_VECTORS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a function of one element-wise block whose values are those of blocked pixels."""
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    if len(found) != 1 or not found[0].is_spatial or not all(found[0].extents):
        return neon.rule(func, machine)
    if not _by_segments(schedule, found[0], machine):
        return neon.rule(func, machine)
    return schedule


def _by_segments(schedule: Schedule, block: Block, machine: Machine) -> bool:
    """Outer loops shared by threads, the fused inner ones by vectors of pixels."""
    loops, extents = list(block.loops), list(block.extents)
    first = collapsible_axes(schedule.get(block.rv))
    count = prod(extents[first:])
    if not loops or count % machine.lanes or count == machine.lanes:
        return False
    while first < len(loops) - 1 and prod(extents[:first]) < 2 * machine.cores:
        # what is left inside must be whole segments, and more than one
        rest = prod(extents[first + 1 :])
        if rest % machine.lanes or rest < _VECTORS * machine.lanes * machine.segments:
            break
        first += 1
    inner = schedule.fuse(*loops[first:]) if len(loops) - first > 1 else loops[first]
    pixel, lane = schedule.split(inner, [None, machine.lanes])
    schedule.vectorize(lane)
    if first:
        parallelise(schedule, loops[:first], block.work, machine.cores)
    mark_segments(schedule, pixel, _VECTORS)
    return True
