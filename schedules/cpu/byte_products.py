"""Products of two run-time matrices of bytes."""

from __future__ import annotations

from math import prod

from tvmconv.costs.cpu.products import product_tile
from tvmconv.machines.record import Machine
from tvmconv.operators.byte_products import PRODUCT
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import (
    Block,
    blocks,
    has_operator,
    inline_injective,
    inspect,
    parallelize,
    vectorize_loop,
)
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.tir.annotations import mark_cases, mark_last
from tvmconv.tir.general.axes import calls
from tvmconv.tvm_api.types import BlockRV, PrimFunc, Schedule

# panels whose sums hide the latency of each other's dot products
_PANELS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule :func:`tvmconv.operators.byte_products.byte_product`, and what is fused with it.

    1. Columns are copied into panels of one vector, as dwords of neighboring steps. The sums of
       columns are taken from the copy.
    2. One register tile of rows and panels runs over the whole reduction. The last step, of fewer
       elements, and the last tiles are separate code. Zero points are subtracted from registers.
    3. Threads share batches, or tiles.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    product = _product(schedule)
    if product is None:
        return None
    inline_injective(schedule)
    *batch, rows, count, lanes, steps = product.extents
    tile = product_tile(machine, rows, count * lanes, steps)
    store = _reader(schedule, product) or schedule.cache_write(product.rv, 0, "global")
    *outer, m, n, lane, k = schedule.get_loops(product.rv)
    row_tiles, row = schedule.split(m, [None, tile.rows])
    column_tiles, vector = schedule.split(n, [None, tile.vectors])
    stays = 4 * count * lanes * steps <= machine.l2_bytes // 2
    first, second = (row_tiles, column_tiles) if stays else (column_tiles, row_tiles)
    schedule.reorder(*outer, first, second, k, row, vector, lane)
    mark_cases(schedule, first, second)
    shared = outer if outer and prod(batch) >= machine.cores else [first]
    parallelize(schedule, shared, product.work, machine.cores)
    register_tile(
        schedule, product.rv, store, at=second, reduction=k, tile=(row, vector), lane=lane
    )
    mark_last(schedule, k)
    for block in blocks(schedule):
        if block.name == "panels":
            _copy(schedule, block, machine)
        elif block.name == "column_sums":
            _add(schedule, block, machine)
        elif block.is_spatial and block.kinds and len(block.loops) == len(block.kinds):
            spatial_block(schedule, block, machine)
    return schedule


def _product(schedule: Schedule) -> Block | None:
    found = (block for block in blocks(schedule) if has_operator(schedule, block, PRODUCT))
    return next(found, None)


def _reader(schedule: Schedule, product: Block) -> BlockRV | None:
    """The only reader of the sums, if it is cheap and walks over the result in its order."""
    readers = list(schedule.get_consumers(product.rv))
    if len(readers) != 1:
        return None
    reader = inspect(schedule, readers[0])
    *outer, count, lanes, _ = product.extents
    (written,) = schedule.get(product.rv).writes
    read = [
        region
        for region in schedule.get(reader.rv).reads
        if region.source.same_as(written.source)
    ]
    *rows, columns = reader.extents or (0,)
    same = tuple(rows) == tuple(outer) and (count - 1) * lanes < columns <= count * lanes
    whole = reader.is_spatial and same and len(read) == 1
    return reader.rv if whole and not calls(schedule.get(reader.rv).body) else None


def _copy(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Copy columns, a vector of neighbors of each row of a dword at a time."""
    *outer, panel, step, lane = block.loops
    mark_cases(schedule, panel)
    mark_last(schedule, step)
    schedule.vectorize(lane)
    if not outer or prod(block.extents[:-3]) < machine.cores:
        outer = [panel]
    parallelize(schedule, outer, block.work, machine.cores)


def _add(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Add the dwords of some panels side by side."""
    *outer, panel, lane, step = block.loops
    tiles, panel = schedule.split(panel, [None, min(_PANELS, block.extents[-3])])
    schedule.reorder(*outer, tiles, step, panel, lane)
    mark_cases(schedule, tiles)
    parallelize(schedule, outer or [tiles], block.work, machine.cores)
    store = schedule.cache_write(block.rv, 0, "global")
    register_tile(
        schedule, block.rv, store, at=tiles, reduction=step, tile=(panel,), lane=lane
    )
