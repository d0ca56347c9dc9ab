"""GEMM of two run-time matrices."""

from __future__ import annotations

from math import gcd, prod

from tvmconv.costs.cpu.products import product_tile
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import Block, blocks, inspect, parallelize, vectorize_loop
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.schedules.cpu.matvec import few_rows, reads_in_place
from tvmconv.schedules.cpu.operand import (
    ColumnsOperand,
    pack_columns,
    plain_product,
    result_store,
    sum_lanes,
)
from tvmconv.tir.annotations import mark_cases, mark_transpose
from tvmconv.tir.general.rewrite import item_bytes
from tvmconv.tvm_api.types import BlockRV, PrimFunc, Schedule

# fewest steps of columns that are transposed in registers
_SQUARE = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a (batched) matrix product ``C[.., m, n] += A[.., m, k] * B``.

    1. B, stored either way, is copied into panels of one vector, the last filled up with zeros. A
       tile reads one stream for each of its vectors.
    2. One register tile of rows and vectors runs over the whole inner dimension. The last tiles of
       rows and columns are separate code for the rest. Threads share batches and panels.
    """
    found = plain_product(func)
    if found is None:
        return None
    schedule, product, operand = found
    m_extent, n_extent, k_extent = product.extents[-3:]
    if reads_in_place(product, operand, machine):
        return few_rows(schedule, product, operand, machine)
    lanes = sum_lanes(schedule, product, machine)
    # a tile is the same number of vectors of either width
    times = machine.lanes // lanes
    tile = product_tile(machine, m_extent, times * n_extent, k_extent)
    packed = pack_columns(schedule, product, operand, (1, lanes, 1))
    store = result_store(schedule, product, operand, lanes, joins=True)
    name = schedule.get(packed).name_hint
    *outer, m, n, k = schedule.get_loops(product.rv)
    # if each thread has whole batches, copies of one batch stay in its cache
    whole = len(outer) > 0 and prod(product.extents[:-3]) >= machine.cores
    row_tiles, row = schedule.split(m, [None, tile.rows])
    columns, vector, lane = schedule.split(n, [None, tile.vectors, lanes])
    # rows of the result are written from end to end, unless panels do not stay in L2
    stays = 4 * times * n_extent * k_extent <= machine.l2_bytes // 2
    first, second = (row_tiles, columns) if stays else (columns, row_tiles)
    schedule.reorder(*outer, first, second, k, row, vector, lane)
    mark_cases(schedule, first, second)
    batch = parallelize(schedule, outer if whole else [first], product.work, machine.cores)
    # columns whose inner steps are neighbors in memory are transposed when they are copied
    side = _side(k_extent, lanes) if operand.inner_axis == operand.axes - 1 else 1
    across = side >= _SQUARE
    moved = _of_batches(schedule, product) if whole else []
    if whole and _shares_sets(schedule, product, operand, tile.rows, machine):
        moved.append(schedule.cache_read(product.rv, 1 - operand.index, "global"))
    for block in moved:
        schedule.compute_at(block, batch, preserve_unit_loops=True)
    if not stays:
        at = columns if whole else batch
        schedule.compute_at(packed, at, preserve_unit_loops=True)
    register_tile(
        schedule, product.rv, store, at=second, reduction=k, tile=(row, vector), lane=lane
    )
    for block in schedule.get_consumers(store) if whole else ():
        if inspect(schedule, block).extents == product.extents[:-1]:
            schedule.reverse_compute_at(block, batch, preserve_unit_loops=True)
            moved.append(block)
    mark_cases(schedule, schedule.get_loops(packed)[-3])
    if across:
        _transpose(schedule, packed, side)
    for block in moved:
        if not (across and schedule.get(block).name_hint == name):
            vectorize_loop(schedule, schedule.get_loops(block)[-1], lanes)
    for other in blocks(schedule):
        if other.is_spatial and other.kinds and not (across and other.name == name):
            spatial_block(schedule, other, machine)
    return schedule


def _side(steps: int, lanes: int) -> int:
    """The side of the squares: the last steps, if any, are copied one by one."""
    side = lanes
    while side > steps:
        side //= 2
    return side


def _of_batches(schedule: Schedule, product: Block) -> list[BlockRV]:
    """The copies of operands that have every batch by itself."""
    extents, found = product.extents[:-3], []
    for block in schedule.get_producers(product.rv):
        shape = schedule.get(block).writes[0].source.shape
        if tuple(int(size) for size in shape[: len(extents)]) == extents:
            found.append(block)
    return found


def _shares_sets(
    schedule: Schedule, product: Block, operand: ColumnsOperand, rows: int, machine: Machine
) -> bool:
    """Whether the rows that a tile reads at once do not fit the sets of L1 to which they map."""
    statement = schedule.get(product.rv)
    region = statement.reads[1 - operand.index]
    row = statement.iter_vars[len(product.extents) - 3].var
    axes = [axis for axis, part in enumerate(region.region) if part.min.same_as(row)]
    if not axes:
        return False
    apart = item_bytes(str(region.source.dtype)) * prod(
        int(size) for size in region.source.shape[axes[0] + 1 :]
    )
    sets = max(1, machine.l1d_way_bytes // gcd(apart, machine.l1d_way_bytes))
    return rows > machine.l1d_ways * sets


def _transpose(schedule: Schedule, packed: BlockRV, side: int) -> None:
    """Copy columns to panels by squares in registers."""
    *_, k, column = schedule.get_loops(packed)
    squares, k = schedule.split(k, [None, side])
    schedule.reorder(column, k)
    mark_cases(schedule, squares)
    mark_transpose(schedule, column)
    schedule.vectorize(k)
