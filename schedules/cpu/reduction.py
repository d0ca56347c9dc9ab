"""Functions with reductions: sums, means, extrema, softmax on any axis."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, parallelize
from tvmconv.schedules.cpu.elementwise import collapsed, spatial_block
from tvmconv.schedules.cpu.long_rows import add_rows, rows_at_once
from tvmconv.schedules.cpu.partials import SHORTEST, along_columns, along_rows, chains_of
from tvmconv.schedules.cpu.strided_rows import across_rows, are_short, loops_over_rows
from tvmconv.schedules.cpu.whole_rows import whole_rows
from tvmconv.tir.annotations import mark_tail
from tvmconv.tir.general.axes import contiguous_axis
from tvmconv.tir.general.rewrite import nests_of, with_nests
from tvmconv.tvm_api.types import BlockRV, LoopRV, PrimFunc, Schedule

# vectors that hide the latency of each other's additions
_VECTORS = 8
# fewer vectors wait for each other's additions
_FEW = 3
# vectors of a row that is read in the order of memory, and elements of results that stay in a cache
_LONG_ROW, _LONGEST_ROW = 8, 1 << 14


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule reductions and the element-wise blocks around them.

    1. Element-wise intermediates are inlined.
    2. A reduction with contiguous loads along a spatial axis is vectorized along that axis, inside
       the reduction loops. Long rows are read in the order of memory, a few rows at once.
    3. A reduction with contiguous loads along the reduced axis keeps a vector of partial results,
       which a second block combines. So does a reduction of few columns, for each column.
    4. A reduction of a few neighbors takes one element of each of several rows at a time.
    5. Results of short rows are computed by vectors over several rows.
    6. A reduction of parts that are shorter than vectors first adds up whole rows.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = collapsed(func, keep_roots=True)
    found = blocks(schedule)
    usable = all(all(b.extents) and (b.is_spatial or b.is_reduction) for b in found)
    if not usable or all(block.is_spatial for block in found):
        return None
    schedule = whole_rows(schedule, machine)
    found = blocks(schedule)
    rows = loops_over_rows(schedule, found[-1], machine)
    for block in found:
        if not block.loops:
            # TVM's rfactor rejects a second statement that is not in a loop
            schedule.add_unit_loop(block.rv)
    for block in found if rows is None else found[:-1]:
        if block.is_spatial:
            spatial_block(schedule, block, machine)
        else:
            reduction_block(schedule, block, machine)
    if rows is None:
        return schedule
    function = schedule.mod["main"]
    return Schedule(with_nests(function, {len(nests_of(function)) - 1: rows}), enable_check=False)


def reduction_block(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Parallel spatial loops; vectors along the contiguous axis."""
    statement = schedule.get(block.rv)
    axis = contiguous_axis(statement)
    position = next(
        (i for i, item in enumerate(statement.iter_vars) if item.var.same_as(axis)), None
    )
    if position is None or block.extents[position] == 1:
        _scalar(schedule, block, machine)
    elif are_short(schedule, block, position, machine):
        across_rows(schedule, block, machine)
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
    column, extent = block.loops[position], block.extents[position]
    rows = rows_at_once(int(schedule.get(reduced[-1]).extent))
    results = block.iterations("S")
    shares = machine.cores > 1 and results < 4 * machine.cores * extent
    if rows > 1 and _LONG_ROW * machine.lanes <= extent <= _LONGEST_ROW and not shares:
        schedule.reorder(*spatial, *reduced, column)
        add_rows(schedule, block.rv, column, reduced, rows, machine)
    else:
        schedule.reorder(*spatial, column, *reduced)
        groups = reduce_columns(schedule, block.rv, column, reduced, machine)
        if groups is not None and extent % (_VECTORS * machine.lanes) == 0:
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
    width, groups = _columns_at_once(extent, machine.lanes), None
    if extent != width:
        groups, column = schedule.split(column, [None, width])
        if extent % width:
            mark_tail(schedule, groups, width, extent % width, overlap=True)
    schedule.reorder(*reduced, column)
    start = schedule.decompose_reduction(rv, reduced[0])
    for lane in (schedule.get_loops(start)[-1], column):
        if width > 1:
            schedule.vectorize(lane)
    return groups


def _columns_at_once(extent: int, lanes: int) -> int:
    """Columns of a group: whole vectors, of which the last group repeats few; or all of them."""
    if extent < lanes:
        return extent
    vectors = -(-extent // lanes)
    # LLVM keeps vectors of other lengths in memory
    counts = [count for count in (_VECTORS, 4, 2, 1) if count * lanes <= extent]
    return lanes * min(counts, key=lambda count: -(-vectors // count) * max(count, _FEW))


def _scalar(schedule: Schedule, block: Block, machine: Machine) -> None:
    spatial, _ = _split_axes(block, -1)
    if spatial:
        parallelize(schedule, spatial, block.work, machine.cores)
