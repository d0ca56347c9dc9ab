"""Products of matrices that are both computed at run time."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from tvmconv.costs.products import best_tile
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import (
    Block,
    blocks,
    inline_injective,
    inspect,
    parallelise,
    vectorise,
)
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.schedules.cpu.matvec import few_rows, reads_in_place
from tvmconv.schedules.cpu.operand import Operand, index_map
from tvmconv.tir.annotations import mark_cases, mark_transpose
from tvmconv.tir.axes import loads
from tvmconv.tir.rewrite import variables
from tvmconv.tvm_api.types import BlockRV, PrimFunc, Schedule

# multiply-adds below which copying into panels costs more than it saves
_SMALLEST = 4096
# fewest steps of columns that are transposed in registers
_SQUARE = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a (batched) matrix product ``C[.., m, n] += A[.., m, k] * B``.

    1. The matrices are padded to whole register tiles where those do not divide them.
    2. B, whichever way it is stored, is copied into panels as wide as a tile, which the tile
       then reads as one stream.
    3. One register tile of rows and vectors runs over the whole inner dimension; batches and
       panels are shared between the threads.
    """
    found = plain_product(func)
    if found is None:
        return None
    schedule, product, operand = found
    m_extent, n_extent, k_extent = product.extents[-3:]
    if reads_in_place(product, operand, machine):
        return few_rows(schedule, product, operand, machine)
    best = best_tile(machine, m_extent, n_extent, k_extent)
    rows, lanes, width = best.rows, machine.lanes, best.vectors * machine.lanes
    packed, store = pack_columns(schedule, product, operand, (rows, width, 1), lanes)
    name = schedule.get(packed).name_hint
    *outer, m, n, k = schedule.get_loops(product.rv)
    # where each thread has whole batches, copies of one stay in its cache
    whole = len(outer) > 0 and prod(product.extents[:-3]) >= machine.cores
    row_tiles, row = schedule.split(m, [None, rows])
    columns, vector, lane = schedule.split(n, [None, width // lanes, lanes])
    schedule.reorder(*outer, columns, row_tiles, k, row, vector, lane)
    shared = [*outer] if whole else [*outer, columns]
    batch = parallelise(schedule, shared, product.work, machine.cores)
    # the padded rows stay in memory: inside of the tile their test would cost more than the sum
    for producer in schedule.get_producers(packed):
        schedule.compute_inline(producer)
    # columns whose inner steps are neighbors in memory are transposed on their way
    side = gcd(k_extent, lanes) if operand.inner_axis == operand.axes - 1 else 1
    across = side >= _SQUARE
    moved = _of_batches(schedule, product) if whole else []
    for block in moved:
        schedule.compute_at(block, batch, preserve_unit_loops=True)
    register_tile(
        schedule, product.rv, store, at=row_tiles, reduction=k, tile=(row, vector), lane=lane
    )
    for block in schedule.get_consumers(store) if whole else ():
        if inspect(schedule, block).extents == product.extents[:-1]:
            schedule.reverse_compute_at(block, batch, preserve_unit_loops=True)
            moved.append(block)
    if across:
        _transpose(schedule, packed, side)
    for block in moved:
        if not (across and schedule.get(block).name_hint == name):
            vectorise(schedule, schedule.get_loops(block)[-1], lanes)
    for other in blocks(schedule):
        if other.is_spatial and other.kinds and not (across and other.name == name):
            spatial_block(schedule, other, machine)
    return schedule


def _of_batches(schedule: Schedule, product: Block) -> list[BlockRV]:
    """The copies of operands that have every batch by itself."""
    extents, found = product.extents[:-3], []
    for block in schedule.get_producers(product.rv):
        shape = schedule.get(block).writes[0].source.shape
        if tuple(int(size) for size in shape[: len(extents)]) == extents:
            found.append(block)
    return found


def _transpose(schedule: Schedule, packed: BlockRV, side: int) -> None:
    """Copy columns to panels by squares in registers."""
    *_, panel, k, column = schedule.get_loops(packed)
    mark_cases(schedule, panel)
    _, k = schedule.split(k, [None, side])
    schedule.reorder(column, k)
    mark_transpose(schedule, column)
    schedule.vectorize(k)


def plain_product(func: PrimFunc) -> tuple[Schedule, Block, Operand] | None:
    """The product of a function, and which operand holds its columns; None if it is no such."""
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    products = [block for block in found if block.is_reduction]
    if len(products) != 1 or not all(all(block.extents) for block in found):
        return None
    operand = _columns_operand(schedule, products[0])
    if operand is None or products[0].work < _SMALLEST:
        return None
    return schedule, products[0], operand


def pack_columns(
    schedule: Schedule, product: Block, operand: Operand, tile: Sequence[int], lanes: int
) -> tuple[BlockRV, BlockRV]:
    """Copy columns into panels, and let the result be vectors.

    Parameters
    ----------
    schedule, product, operand
        As :func:`plain_product` found them.
    tile
        Rows, columns (of a panel) and inner steps to whole numbers of which matrices are padded.
    lanes
        Values of a vector.

    Returns
    -------
    packed, store
        The blocks that write the panels, ``(.., n / columns, k, columns)``, and the result.
    """
    batch = len(product.loops) - 3
    schedule.pad_einsum(product.rv, [1] * batch + list(tile))
    packed = schedule.cache_read(product.rv, operand.index, "global")
    panels = operand.panels(tile[1])
    schedule.transform_layout(product.rv, ("read", operand.index), panels)
    schedule.transform_block_layout(packed, panels)
    store = schedule.cache_write(product.rv, 0, "global")
    vectors = index_map(
        lambda *index: (*index[:-1], index[-1] // lanes, index[-1] % lanes),
        batch + 2,
        operand.index_dtype,
    )
    schedule.transform_layout(product.rv, ("write", 0), vectors)
    schedule.transform_block_layout(store, vectors)
    return packed, store


def _columns_operand(schedule: Schedule, block: Block) -> Operand | None:
    """B of a plain matrix product; None for any other reduction."""
    if len(block.kinds) < 3 or block.kinds != "S" * (len(block.kinds) - 1) + "R":
        return None
    statement = schedule.get(block.rv)
    *_, m, n, k = (axis.var for axis in statement.iter_vars)
    if len(statement.reads) != 2 or len(loads(statement.body)) != 3:
        return None
    indices = [[part.min for part in region.region] for region in statement.reads]
    uses = [set().union(*(variables(part) for part in parts)) for parts in indices]
    if not all(k in used for used in uses):
        return None
    columns = [i for i, used in enumerate(uses) if n in used and m not in used]
    if len(columns) != 1 or n in uses[1 - columns[0]]:
        return None
    index = columns[0]
    axes = indices[index]
    column = [i for i, part in enumerate(axes) if part.same_as(n)]
    inner = [i for i, part in enumerate(axes) if part.same_as(k)]
    if not column or not inner:
        return None
    return Operand(index, len(axes), column[0], inner[0], str(n.ty.dtype))
