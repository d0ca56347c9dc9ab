"""Functions with reductions: sums, means, extrema, softmax on any axis."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, parallelize, vectorize_loop
from tvmconv.schedules.cpu.elementwise import collapsed, spatial_block
from tvmconv.schedules.cpu.partials import SHORTEST, along_columns, along_rows, chains_of
from tvmconv.schedules.cpu.whole_rows import whole_rows
from tvmconv.tir.annotations import mark_last, mark_tail
from tvmconv.tir.general.axes import contiguous_axis
from tvmconv.tvm_api.types import BlockRV, LoopRV, PrimFunc, Schedule

# vectors that hide the latency of each other's additions
_VECTORS = 8
# fewer vectors wait for each other's additions
_FEW = 3
# vectors of a row that is read in the order of memory, and elements of results that stay in a cache
_LONG_ROW, _LONGEST_ROW = 8, 1 << 14
# so few rows are added at once only by a divisor of them
_FEW_ROWS = 8


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule reductions and the element-wise blocks around them.

    1. Element-wise intermediates are inlined.
    2. A reduction with contiguous loads along a spatial axis is vectorized along that axis, inside
       the reduction loops. Long rows are read in the order of memory, a few rows at once.
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
    column, extent = block.loops[position], block.extents[position]
    rows = _rows_at_once(int(schedule.get(reduced[-1]).extent))
    results = block.iterations("S")
    shares = machine.cores > 1 and results < 4 * machine.cores * extent
    if rows > 1 and _LONG_ROW * machine.lanes <= extent <= _LONGEST_ROW and not shares:
        schedule.reorder(*spatial, *reduced, column)
        _add_rows(schedule, block.rv, column, reduced, rows, machine)
    else:
        schedule.reorder(*spatial, column, *reduced)
        groups = reduce_columns(schedule, block.rv, column, reduced, machine)
        if groups is not None and extent % (_VECTORS * machine.lanes) == 0:
            spatial.append(groups)
    if spatial:
        parallelize(schedule, spatial, block.work, machine.cores)


def _rows_at_once(rows: int) -> int:
    """Rows that are added to a row of results at once: a divisor, or fewer of them at the end."""
    divisors = (4, 6, 5, 8, 7, 3) if rows > _FEW_ROWS else (4, 6, 5, 8, 7, 3, 2)
    return next((count for count in divisors if rows % count == 0), 4 if rows > _FEW_ROWS else 1)


def _add_rows(
    schedule: Schedule,
    rv: BlockRV,
    column: LoopRV,
    reduced: list[LoopRV],
    rows: int,
    machine: Machine,
) -> None:
    """Reduce long rows in the order of memory, a few rows at once.

    The results stay in the nearest cache. Groups of columns would read a short part of each row.
    """
    start = schedule.decompose_reduction(rv, reduced[0])
    vectorize_loop(schedule, schedule.get_loops(start)[-1], machine.lanes)
    count = int(schedule.get(reduced[-1]).extent)
    outer, inner = schedule.split(reduced[-1], [None, rows])
    if int(schedule.get(outer).extent) * rows > count:
        mark_last(schedule, outer)
    vectors = vectorize_loop(schedule, column, machine.lanes)
    lane = schedule.get_loops(rv)[-1]
    schedule.reorder(outer, *([vectors] if vectors else []), inner, lane)
    schedule.unroll(inner)


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
