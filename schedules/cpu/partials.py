"""Reductions by independent partial results, which a second block combines."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, parallelize
from tvmconv.tir.annotations import mark_combine, mark_tail
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# shorter rows are one short vector, or scalar code that LLVM vectorizes if nothing else is reduced
SHORTEST = 5
# so many steps outweigh that the last one is shorter
_LONG = 8
# partial results whose additions hide each other's latency
_CHAINS = 8


def along_rows(schedule: Schedule, block: Block, position: int, machine: Machine) -> None:
    """Vectors of partial results along the reduced axis at ``position``, which is contiguous."""
    extent = block.extents[position]
    lanes = min(machine.lanes, 1 << (extent.bit_length() - 1))
    lanes = extent if extent < SHORTEST else lanes
    # independent vectors hide the latency of the additions
    counts = [u for u in (4, 2) if extent % (lanes * u) == 0 or extent >= _LONG * lanes * u]
    step = lanes * max(counts, default=1)
    chunks, lane = schedule.split(block.loops[position], [None, step])
    if extent % step:
        mark_tail(schedule, chunks, step, extent % step)
    partial = schedule.rfactor(lane, block.kinds.count("S"))
    # the loops of the partial results keep the old order, with the split loop as a pair
    loops = list(schedule.get_loops(partial))
    lane = loops.pop(position + 1)
    start = _nested(schedule, block, partial, loops, block.kinds, [lane], machine)
    for vector in (schedule.get_loops(start)[-1], lane):
        schedule.vectorize(vector)
    combined, units = _combination(schedule, block.rv)
    schedule.reorder(*units, combined)
    _started(schedule, block.rv, combined)
    mark_combine(schedule, combined)


def along_columns(
    schedule: Schedule, block: Block, position: int, count: int, machine: Machine
) -> None:
    """``count`` partial results of each column, columns being the spatial axis at ``position``."""
    _, chain = schedule.split(block.loops[-1], [None, count])
    partial = schedule.rfactor(chain, block.kinds.count("S"))
    loops = list(schedule.get_loops(partial))
    chain, column = loops.pop(), loops.pop(position)
    kinds = block.kinds[:position] + block.kinds[position + 1 :]
    start = _nested(schedule, block, partial, loops, kinds, [chain, column], machine)
    *_, first_chain, first_column = schedule.get_loops(start)
    combined, (*units, own) = _combination(schedule, block.rv)
    schedule.reorder(*units, combined, own)
    begin = _started(schedule, block.rv, combined)
    for loop in (first_chain, chain, combined):
        schedule.unroll(loop)
    for loop in (first_column, column, own, schedule.get_loops(begin)[-1]):
        schedule.vectorize(loop)


def chains_of(block: Block, position: int, machine: Machine) -> int:
    """Partial results that each column needs; 1 where columns fill half of a vector."""
    steps = block.extents[-1]
    if 2 * block.extents[position] >= machine.lanes or steps < 2 * _CHAINS:
        return 1
    wanted = range(_CHAINS, 2 * _CHAINS)
    return next((count for count in wanted if steps % count == 0), _CHAINS)


def _nested(
    schedule: Schedule,
    block: Block,
    partial: BlockRV,
    loops: list[LoopRV],
    kinds: str,
    inner: list[LoopRV],
    machine: Machine,
) -> BlockRV:
    """Order the loops of partial results; returns the block that starts them.

    The combination follows the partial results of each iteration of the spatial ``loops``.
    """
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "S"]
    reduced = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == "R"]
    schedule.reorder(*spatial, *reduced, *inner)
    if spatial:
        shared = parallelize(schedule, spatial, block.work, machine.cores)
        schedule.reverse_compute_at(block.rv, shared, preserve_unit_loops=True)
    return schedule.decompose_reduction(partial, reduced[0])


def _combination(schedule: Schedule, rv: BlockRV) -> tuple[LoopRV, list[LoopRV]]:
    """The loop of a combination over partial results, and its loops over results."""
    axes, loops = schedule.get(rv).iter_vars, list(schedule.get_loops(rv))
    if len(loops) == len(axes):
        # not moved into other loops: TVM leaves it the order of the old loops
        return loops.pop(), loops
    loops = loops[-len(axes) :]
    return loops.pop(next(i for i, axis in enumerate(axes) if int(axis.iter_type) == 2)), loops


def _started(schedule: Schedule, rv: BlockRV, loop: LoopRV) -> BlockRV:
    """Start the results before this loop, by a block of its own."""
    outermost = schedule.get(schedule.get_loops(rv)[0])
    if outermost.same_as(schedule.get(loop)):
        # TVM adds a second statement only inside of a loop
        schedule.add_unit_loop(loop)
    return schedule.decompose_reduction(rv, loop)
