"""GEMM of two run-time matrices by scalable vectors of columns.

As the packed GEMM (:mod:`tvmconv.schedules.sve.gemm`), but rows are not packed: they are lanes of
vectors along the inner dimension.
"""

from __future__ import annotations

from tvmconv.costs.cpu.products import scalable_product
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import blocks, parallelize
from tvmconv.schedules.cpu import matmul as neon
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.schedules.cpu.operand import pack_columns, plain_product, result_store
from tvmconv.schedules.sve.panels import make_room
from tvmconv.tir.annotations import mark_segments, mark_transpose
from tvmconv.tvm_api.types import BlockRV, PrimFunc, Schedule

# steps of a panel that are copied at once
_PACKED = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a batched matrix product whose columns fill a vector.

    1. Rows are padded to whole tiles, and the inner dimension to whole vectors.
    2. Panels of columns, of one batch at a time, are as wide as a tile of some vectors.
    3. Threads share batches, or rows if batches are too few.
    """
    found = plain_product(func)
    if found is None:
        return None
    schedule, product, operand = found
    lanes = machine.lanes
    m_extent, n_extent, k_extent = product.extents[-3:]
    rows, vectors = scalable_product(m_extent, n_extent, machine)
    # a batch's panels may extend into the next batch's; without an axis of batches the buffer has
    # no space after them
    if not vectors or len(product.loops) == 3:
        return neon.rule(func, machine)
    packed = pack_columns(schedule, product, operand, (rows, lanes, lanes))
    store = result_store(schedule, product, operand, lanes)
    *outer, m, n, k = schedule.get_loops(product.rv)
    steps = -(-k_extent // lanes) * lanes
    tiles, row = schedule.split(m, [None, rows])
    count = int(schedule.get(tiles).extent)
    batches = product.work // (m_extent * n_extent * k_extent)
    shared = 1 if batches >= machine.cores else min(count, machine.cores)
    share, tiles = schedule.split(tiles, [shared, None])
    columns, lane = schedule.split(n, [None, lanes])
    k, step = schedule.split(k, [None, lanes])
    schedule.reorder(*outer, share, columns, tiles, k, step, row, lane)
    batch = schedule.fuse(*outer) if len(outer) > 1 else outer[0]
    parallelize(schedule, [batch if shared == 1 else share], product.work, machine.cores)
    schedule.compute_at(packed, batch, preserve_unit_loops=True)
    _panels(schedule, packed, operand.inner_axis > operand.column_axis)
    make_room(schedule, packed, vectors, steps, machine)
    mark_segments(schedule, schedule.get_loops(packed)[-3], vectors, steps)
    register_tile(schedule, product.rv, store, at=tiles, reduction=k, tile=(step, row), lane=lane)
    mark_segments(schedule, columns, vectors, steps)
    done = {product.name, str(schedule.get(packed).name_hint), str(schedule.get(store).name_hint)}
    for block in blocks(schedule):
        if block.is_spatial and block.kinds and block.name not in done:
            spatial_block(schedule, block, machine)
    return schedule


def _panels(schedule: Schedule, packed: BlockRV, transposed: bool) -> None:
    """Pack some steps of all panels at a time; transpose in registers if needed."""
    *_, panel, x, lane = schedule.get_loops(packed)
    x, step = schedule.split(x, [None, _PACKED])
    if transposed:
        schedule.reorder(x, panel, lane, step)
        mark_transpose(schedule, lane)
        schedule.vectorize(step)
    else:
        schedule.reorder(x, panel, step, lane)
        schedule.unroll(step)
        schedule.vectorize(lane)
