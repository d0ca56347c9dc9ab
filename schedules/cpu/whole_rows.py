"""Reductions of parts that are shorter than vectors: whole rows are added up first."""

from __future__ import annotations

from itertools import takewhile

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks
from tvmconv.tir.general.axes import loads
from tvmconv.tir.general.collapse_axes import collapse_axes
from tvmconv.tvm_api.types import BlockRV, Expr, SBlock, Schedule

# parts of rows are shorter than these vectors, and rows are at least as many
_PART_VECTORS, _FEWEST_ROWS = 4, 4
# times that whole rows are faster
_FASTER = 8
# registers of joined rows
_JOINED_VECTORS = 8
_FLOAT_BYTES = 4


def whole_rows(schedule: Schedule, machine: Machine) -> Schedule:
    """A schedule of collapsed axes, whose reductions of short parts become two reductions each.

    The first one has contiguous rows as columns. The second one is short.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    for change in (_add_up_rows, _join_rows):
        changed = schedule.copy()
        done = [change(changed, block, machine) for block in blocks(changed)]
        function = changed.mod["main"]
        joined = collapse_axes(function) if any(done) else function
        if not joined.same_as(function):
            schedule = Schedule(joined, enable_check=False)
    return schedule


def _add_up_rows(schedule: Schedule, block: Block, machine: Machine) -> bool:
    """Add up rows of which each result gets a short part, then the elements of each part.

    Returns whether the schedule has changed.
    """
    axes = last_axes(schedule.get(block.rv))
    if axes is None or [block.kinds[axis] for axis in axes] != ["S", "R"]:
        return False
    part = axes[1]
    length, spatial = block.extents[part], block.kinds.count("S")
    results = block.iterations("S")
    fits = results * length * _FLOAT_BYTES <= machine.l1d_bytes // 2
    rows = block.work // (length * results)
    if min(machine.cores, results) >= _FASTER:
        # threads share results, and one thread would add up whole rows
        return False
    if not fits or length >= _PART_VECTORS * machine.lanes or rows < _FEWEST_ROWS:
        return False
    partial = schedule.rfactor(block.loops[part], spatial)
    # TVM puts the axis of the partial results first
    _order_axes(schedule, partial, [*range(1, spatial + 1), 0])
    _store_as_rows(schedule, partial)
    _order_axes(schedule, block.rv, [*range(1, spatial + 1), 0])
    return True


def _join_rows(schedule: Schedule, block: Block, machine: Machine) -> bool:
    """Add up several short rows as one row, then the parts of each column.

    Where other axes are reduced too, these may be all rows. Returns whether the schedule has
    changed.
    """
    axes = last_axes(schedule.get(block.rv))
    spatial = block.kinds.count("S")
    if axes is None or [block.kinds[axis] for axis in axes] != ["R", "S"]:
        return False
    step, columns = axes
    length, rows = block.extents[columns], block.extents[step]
    most = rows if block.iterations("R") >= _FEWEST_ROWS * rows else rows // 2
    count = _rows_of_one(rows, most, length, machine)
    if count is None or columns != spatial - 1:
        return False
    chain = block.loops[step]
    if count < rows:
        _, chain = schedule.split(chain, [None, count])
    partial = schedule.rfactor(chain, spatial - 1)
    _order_axes(schedule, partial, [*range(1, spatial), 0, spatial])
    _store_as_rows(schedule, partial)
    _order_axes(schedule, block.rv, [*range(1, spatial + 1), 0])
    return True


def last_axes(statement: SBlock) -> tuple[int, int] | None:
    """The axes that every load has as its last two indices; None if loads differ."""
    axes = [axis.var for axis in statement.iter_vars]
    found: set[tuple[int, ...]] = set()
    for load in loads(statement.body):
        if not load.source.same_as(statement.writes[0].source):
            last = list(load.indices)[-2:]
            found.add(tuple(i for var in last for i, axis in enumerate(axes) if axis.same_as(var)))
    first, *others = found or [()]
    return (first[0], first[1]) if len(first) == 2 and not others else None


def _rows_of_one(rows: int, most: int, columns: int, machine: Machine) -> int | None:
    """How many rows become one, at most ``most``: a divisor, so that vectors are full."""
    if columns > 2 * machine.lanes:
        return None
    most = min(most, _JOINED_VECTORS * machine.lanes // columns)
    divisors = [count for count in range(2, most + 1) if rows % count == 0]

    def vectors(count: int) -> tuple[float, int]:
        return -(-count * columns // machine.lanes) / count, -count

    return min(divisors, key=vectors, default=None)


def _store_as_rows(schedule: Schedule, partial: BlockRV) -> None:
    """One index for the last indices of partial results, so that the axes of rows can be joined.

    The block's axes are in the order of its results' indices.
    """
    from tvmconv.tvm_api.tirx import IndexMap

    statement = schedule.get(partial)
    shape = [int(size) for size in statement.writes[0].source.shape]
    kept = len(shape) - max(2, _axes_of_rows(statement, len(shape)))

    def place(*indices: Expr) -> list[Expr]:
        row = indices[kept]
        for index, size in zip(indices[kept + 1 :], shape[kept + 1 :], strict=True):
            row = row * size + index
        return [*indices[:kept], row]

    kind = str(statement.iter_vars[0].var.ty.dtype)
    row = IndexMap.from_func(place, ndim=len(shape), index_dtype=kind)
    schedule.transform_layout(partial, ("write", 0), row)


def _axes_of_rows(statement: SBlock, spatial: int) -> int:
    """How many of the last spatial axes are in this order the last indices of every load."""
    axes = [axis.var for axis in statement.iter_vars[:spatial]]
    found = []
    for load in loads(statement.body):
        if not load.source.same_as(statement.writes[0].source):
            pairs = zip(reversed(list(load.indices)), reversed(axes), strict=False)
            found.append(len(list(takewhile(lambda pair: pair[0].same_as(pair[1]), pairs))))
    return min(found, default=0)


def _order_axes(schedule: Schedule, rv: BlockRV, first: list[int]) -> None:
    """Give a block its axes in this order, spatial axes before reduced axes."""
    axes = schedule.get(rv).iter_vars
    order = [*first, *range(len(first), len(axes))]
    schedule.reorder_block_iter_var(rv, sorted(order, key=lambda i: int(axes[i].iter_type)))
