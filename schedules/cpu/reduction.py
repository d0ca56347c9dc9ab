"""Functions with reductions: sums, means, extrema, softmax on any axis."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, parallelize
from tvmconv.schedules.cpu.elementwise import collapsed, spatial_block
from tvmconv.schedules.cpu.partials import SHORTEST, along_columns, along_rows, chains_of
from tvmconv.schedules.cpu.whole_rows import whole_rows
from tvmconv.tir.annotations import mark_tail
from tvmconv.tir.general.axes import contiguous_axis
from tvmconv.tvm_api.types import BlockRV, LoopRV, PrimFunc, Schedule

# vectors that hide the latency of each other's additions
_VECTORS = 8


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule reductions and the element-wise blocks around them.

    1. Element-wise intermediates are inlined.
    2. A reduction with contiguous loads along a spatial axis is vectorized along that axis, inside
       the reduction loops.
    3. A reduction with contiguous loads along the reduced axis keeps a vector of partial results,
       which a second block combines. So does a reduction of few columns, for each column.
    4. A reduction of parts that are shorter than vectors first adds up whole rows.
    """
    schedule = collapsed(func)
    found = blocks(schedule)
    usable = all(all(b.extents) and (b.is_spatial or b.is_reduction) for b in found)
    if not usable or all(block.is_spatial for block in found):
        return None
    schedule = whole_rows(schedule, machine)
    found = blocks(schedule)
    for block in found:
        if not block.loops:
            # TVM's rfactor rejects a second statement that is not in a loop
            schedule.add_unit_loop(block.rv)
    for block in found:
        if block.is_spatial:
            spatial_block(schedule, block, machine)
        else:
            reduction_block(schedule, block, machine)
    return schedule


def reduction_block(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Parallel spatial loops; vectors along the contiguous axis."""
    statement = schedule.get(block.rv)
    axis = contiguous_axis(statement)
    position = next(
        (i for i, item in enumerate(statement.iter_vars) if item.var.same_as(axis)), None
    )
    if position is None or block.extents[position] == 1:
        _scalar(schedule, block, machine)
    elif block.kinds[position] == "R":
        if block.extents[position] < SHORTEST and block.kinds.count("R") == 1:
            _scalar(schedule, block, machine)
        else:
            along_rows(schedule, block, position, machine)
    elif (count := chains_of(block, position, machine)) > 1:
        along_columns(schedule, block, position, count, machine)
    else:
        _along_spatial(schedule, block, position, machine)


def _split_axes(block: Block, without: int) -> tuple[list[LoopRV], list[LoopRV]]:
    spatial = [loop for i, loop in enumerate(block.loops) if block.kinds[i] == "S" and i != without]
    reduced = [loop for i, loop in enumerate(block.loops) if block.kinds[i] == "R" and i != without]
    return spatial, reduced


def _along_spatial(schedule: Schedule, block: Block, position: int, machine: Machine) -> None:
    spatial, reduced = _split_axes(block, position)
    column = block.loops[position]
    schedule.reorder(*spatial, column, *reduced)
    groups = reduce_columns(schedule, block.rv, column, reduced, machine)
    if groups is not None and block.extents[position] % (_VECTORS * machine.lanes) == 0:
        spatial.append(groups)
    if spatial:
        parallelize(schedule, spatial, block.work, machine.cores)


def reduce_columns(
    schedule: Schedule, rv: BlockRV, column: LoopRV, reduced: list[LoopRV], machine: Machine
) -> LoopRV | None:
    """Reduce neighboring columns side by side: sums of a few vectors stay in registers.

    The loops are the innermost ones of the block, the column first. Returns the loop over groups
    of vectors, if there is more than one.
    """
    extent = int(schedule.get(column).extent)
    width = _VECTORS * machine.lanes
    if extent <= machine.lanes or (extent < width and not extent & (extent - 1)):
        width = extent
    groups = None
    if extent != width:
        groups, column = schedule.split(column, [None, width])
        if extent % width:
            mark_tail(schedule, groups, width, extent % width)
    schedule.reorder(*reduced, column)
    start = schedule.decompose_reduction(rv, reduced[0])
    for lane in (schedule.get_loops(start)[-1], column):
        if width > 1:
            schedule.vectorize(lane)
    return groups


def _scalar(schedule: Schedule, block: Block, machine: Machine) -> None:
    spatial, _ = _split_axes(block, -1)
    if spatial:
        parallelize(schedule, spatial, block.work, machine.cores)
