"""Element-wise functions of whole blocks by scalable vectors.

If every access traverses positions and channels in storage order, they become one loop over
positions of four channels each. The last vector is masked. Other functions use NEON code.
"""

from __future__ import annotations

from math import prod

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, inline_injective, parallelize
from tvmconv.schedules.cpu import elementwise as neon
from tvmconv.tir.annotations import mark_segments
from tvmconv.tir.general.axes import collapsible_axes
from tvmconv.tir.general.rewrite import nodes_of
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import PrimFunc, Schedule

# vectors of one step: enough to overlap several loads and stores
_VECTORS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a function of one element-wise block on the blocked layout."""
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
    """Share the outer loops between threads; vectorize the fused inner loops over positions."""
    loops, extents = list(block.loops), list(block.extents)
    first = collapsible_axes(schedule.get(block.rv))
    count = prod(extents[first:])
    if not loops or count % machine.lanes or count == machine.lanes:
        return False
    while first < len(loops) - 1 and prod(extents[:first]) < 2 * machine.cores:
        # the inner loops must cover several whole segments
        rest = prod(extents[first + 1 :])
        if rest % machine.lanes or rest < _VECTORS * machine.lanes * machine.segments:
            break
        first += 1
    inner = schedule.fuse(*loops[first:]) if len(loops) - first > 1 else loops[first]
    pixel, lane = schedule.split(inner, [None, machine.lanes])
    schedule.vectorize(lane)
    if first:
        parallelize(schedule, loops[:first], block.work, machine.cores)
    casts = nodes_of(schedule.get(block.rv), tirx.Cast)
    # float64 takes two registers, and the constants of its expressions take others
    wide = any(str(cast.ty.dtype) == "float64" for cast in casts)
    mark_segments(schedule, pixel, _VECTORS // 2 if wide else _VECTORS)
    return True
