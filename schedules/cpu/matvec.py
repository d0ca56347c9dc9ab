"""GEMM of few rows, or of one column: each value of the larger operand is used a few times."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import Block, blocks, parallelize
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.schedules.cpu.operand import ColumnsOperand, sum_lanes
from tvmconv.tir.annotations import mark_cases, mark_tail
from tvmconv.tvm_api.types import BlockRV, Schedule

# rows up to which copying columns into panels takes longer than it saves
_FEW_ROWS = 4
# vectors of inner steps from which a horizontal sum is cheaper than a transposed copy
_LONG_SUMS = 8
# vectors of a tile: enough independent accumulators, and long runs of each row of B
_VECTORS = 8
# maximum vectors of a row that one tile holds; the last vector may be shorter
_LONGEST = 16


def reads_in_place(product: Block, operand: ColumnsOperand, machine: Machine) -> bool:
    """Whether the columns are read in place, not from panels."""
    m_extent, n_extent, k_extent = product.extents[-3:]
    if n_extent == 1:
        return True
    neighbors = operand.column_axis == operand.axes - 1
    return m_extent <= _FEW_ROWS and (neighbors or k_extent >= _LONG_SUMS * machine.lanes)


def few_rows(
    schedule: Schedule, product: Block, operand: ColumnsOperand, machine: Machine
) -> Schedule | None:
    """Schedule ``C[.., m, n] += A[.., m, k] * B`` with B read in place.

    1. If the columns of B are neighbors, a tile of all rows by some vectors of columns runs over
       the whole inner dimension.
    2. Otherwise the rule of reductions vectorizes the inner dimension.
    """
    m_extent, n_extent = product.extents[-3:-1]
    if n_extent == 1 or operand.column_axis < operand.axes - 1:
        return None
    lanes = sum_lanes(schedule, product, machine)
    present, rest = -(-n_extent // lanes), n_extent % lanes
    most = max(1, min(_LONGEST, (machine.vector_registers - 2) // (m_extent + 1)))
    count = present if present <= most else _vectors(n_extent, min(most, _VECTORS), lanes)
    store = schedule.cache_write(product.rv, 0, "global")
    *outer, m, n, k = schedule.get_loops(product.rv)
    tiles, vector, lane = schedule.split(n, [None, count, lanes])
    schedule.reorder(*outer, tiles, k, m, vector, lane)
    parallelize(schedule, outer or [tiles], product.work, machine.cores)
    if rest and present > most:
        mark_cases(schedule, tiles)
    register_tile(schedule, product.rv, store, at=tiles, reduction=k, tile=(m, vector), lane=lane)
    if rest and present <= most:
        start = schedule.get_sblock(f"{product.name}_init")
        for part in (start, product.rv, store):
            _mark_last(schedule, part, lanes, rest)
    for block in blocks(schedule):
        if block.is_spatial and block.kinds and len(block.loops) == len(block.kinds):
            spatial_block(schedule, block, machine)
    return schedule


def _vectors(columns: int, most: int, lanes: int) -> int:
    """Vectors of a tile: at least half of ``most``, with the fewest columns left over."""
    fewest = max(1, most // 2)
    return min(range(fewest, most + 1), key=lambda count: (columns % (count * lanes), -count))


def _mark_last(schedule: Schedule, block: BlockRV, lanes: int, rest: int) -> None:
    *_, vector, _lane = schedule.get_loops(block)
    mark_tail(schedule, vector, lanes, rest)
