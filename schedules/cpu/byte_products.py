"""Products of two run-time matrices of bytes."""

from __future__ import annotations

from math import prod

from tvmconv.costs.cpu.products import product_tile
from tvmconv.machines.record import Machine
from tvmconv.operators.byte_products import PANELS, PRODUCT
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import (
    Block,
    blocks,
    has_operator,
    inline_injective,
    inspect,
    parallelize,
)
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.tir.annotations import mark_cases, mark_last
from tvmconv.tir.general.axes import calls
from tvmconv.tvm_api.types import BlockRV, PrimFunc, Schedule

# bytes of a row that are copied at once; sums of so many panels hide each other's latency
_CACHE_LINE = 64


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule the functions of :mod:`tvmconv.operators.byte_products`, and what follows them.

    1. Columns are copied into panels, a vector of neighbors of each row of a dword at a time. Sums
       of columns are taken from the panels while they are in L1.
    2. One register tile of rows and panels runs over the whole reduction. The last step, of fewer
       elements, and the last tiles are separate code. Zero points are subtracted from registers.
    3. Threads share batches, or tiles.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    for block in blocks(schedule):
        if has_operator(schedule, block, PANELS):
            return _panels(schedule, block, machine)
        if has_operator(schedule, block, PRODUCT):
            inline_injective(schedule)
            return _product(schedule, block, machine)
    return None


def _panels(schedule: Schedule, block: Block, machine: Machine) -> Schedule:
    """Copy columns, and add them."""
    *outer, panel, step, lane = block.loops
    tiles, panel = schedule.split(
        panel, [None, min(_CACHE_LINE // machine.lanes, block.extents[-3])]
    )
    # all panels of a cache line are copied before the next rows
    schedule.reorder(step, panel, lane)
    mark_cases(schedule, tiles, panel)
    mark_last(schedule, step)
    schedule.vectorize(lane)
    shared = outer if outer and prod(block.extents[:-3]) >= machine.cores else [tiles]
    parallelize(schedule, shared, block.work, machine.cores)
    for reader in schedule.get_consumers(block.rv):
        store = schedule.cache_write(reader, 0, "global")
        at = schedule.get_loops(block.rv)[-4]
        schedule.reverse_compute_at(reader, at, preserve_unit_loops=True)
        *_, panel, lane, step = schedule.get_loops(reader)
        schedule.reorder(step, panel, lane)
        register_tile(schedule, reader, store, at=at, reduction=step, tile=(panel,), lane=lane)
    return schedule


def _product(schedule: Schedule, product: Block, machine: Machine) -> Schedule:
    """Multiply in register tiles."""
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
        if block.is_spatial and block.kinds and len(block.loops) == len(block.kinds):
            spatial_block(schedule, block, machine)
    return schedule


def _reader(schedule: Schedule, product: Block) -> BlockRV | None:
    """The only reader of the sums, if it is cheap and walks over the result in its order."""
    readers = list(schedule.get_consumers(product.rv))
    if len(readers) != 1:
        return None
    reader = inspect(schedule, readers[0])
    *outer, count, lanes, _ = product.extents
    (written,) = schedule.get(product.rv).writes
    read = [
        region for region in schedule.get(reader.rv).reads if region.source.same_as(written.source)
    ]
    *rows, columns = reader.extents or (0,)
    same = tuple(rows) == tuple(outer) and (count - 1) * lanes < columns <= count * lanes
    whole = reader.is_spatial and same and len(read) == 1
    return reader.rv if whole and not calls(schedule.get(reader.rv).body) else None
