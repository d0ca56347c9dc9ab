"""A tile of a GEMM on tensor cores: how slices arrive, and the fragments of each lane."""

from __future__ import annotations

from tvmconv.algorithms.cuda import fragments
from tvmconv.algorithms.cuda.precision import Precision
from tvmconv.costs.cuda.mma_tile import MmaTile
from tvmconv.tir.annotations import mark_copy_by_registers, mark_pipeline
from tvmconv.tvm_api.types import BlockRV, Expr, Index, LoopRV, Schedule

# dwords that a thread copies at a time: registers of a fragment of weights, and of columns
_WEIGHTS, _COLUMNS = fragments.WEIGHTS, fragments.COLUMN_DWORDS
# innermost axes of a slice, for weights: steps, tiles, lanes, registers; for columns: steps, quads,
# positions, dwords
_INNER = 4
# neighboring accumulators of a lane
_PAIR = 2
# distance in banks of rows of columns in shared memory. Half a warp reads pairs of dwords, 4 rows
# by 4 positions, which then use all 32 banks
_BANKS, _APART = 32, 8


def copy_slices(
    schedule: Schedule,
    sums: BlockRV,
    columns: BlockRV,
    tile: MmaTile,
    part: LoopRV,
    step: LoopRV,
    *,
    pipeline: str,
) -> tuple[BlockRV, BlockRV]:
    """Copy slices to shared memory and fragments of each step to registers.

    Returns the blocks that load fragments of weights and of columns.
    """
    schedule.set_scope(columns, 0, "shared")
    weights = schedule.cache_read(sums, 0, "shared")
    loads = schedule.cache_read(sums, 0, "warp"), schedule.cache_read(sums, 1, "warp")
    for load in loads:
        schedule.compute_at(load, step, preserve_unit_loops=True)
    for copy, width in ((weights, _WEIGHTS), (columns, _COLUMNS)):
        schedule.compute_at(copy, part, preserve_unit_loops=True)
        values = schedule.fuse(*schedule.get_loops(copy)[-_INNER:])
        turn, warp, lane, vector = schedule.split(
            values, [None, tile.warps, fragments.LANES, width]
        )
        schedule.bind(warp, "threadIdx.y")
        schedule.bind(lane, "threadIdx.x")
        schedule.vectorize(vector)
        if pipeline == "none":
            schedule.unroll(turn)
        else:
            mark_copy_by_registers(schedule, copy, two_buffers=pipeline == "double")
    schedule.storage_align(columns, 0, -3, _BANKS, _APART)
    if pipeline != "none":
        # the next slice is stored, the one after it loaded, and this one multiplied. A load has a
        # whole iteration: nvcc moves neither it nor its use into another iteration
        mark_pipeline(schedule, part, stages=[0, 1, 0, 1, 2], order=[2, 0, 3, 1, 4])
    return loads


def load_fragments(schedule: Schedule, weights: BlockRV, columns: BlockRV) -> None:
    """Give each lane the dwords of its registers.

    Loops over registers stay serial: the pass that separates lanes and registers does not support
    vectors, and nvcc vectorizes them.
    """
    from tvmconv.tvm_api.tirx import IndexMap

    *_, lane, _register = schedule.get_loops(weights)
    schedule.bind(lane, "threadIdx.x")
    *_, quad, p, dword = schedule.get_loops(columns)
    tile, column = schedule.split(p, [None, fragments.COLUMNS])
    schedule.reorder(tile, column, quad, dword)
    schedule.bind(schedule.fuse(column, quad), "threadIdx.x")

    def place(
        g: Expr, part: Expr, step: Expr, quad: Expr, p: Expr, dword: Expr
    ) -> tuple[Index, ...]:
        place = fragments.of_columns(quad * 2 + dword, p % fragments.COLUMNS)
        return (g, part, step, p // fragments.COLUMNS, *place)

    schedule.transform_layout(columns, ("write", 0), IndexMap.from_func(place, index_dtype="int32"))


def own_sums(
    schedule: Schedule, tile_m: LoopRV, tile_p: LoopRV, row: LoopRV, pair: LoopRV, own: LoopRV
) -> None:
    """Give each lane its accumulators of the fragments of some loops."""
    half, row = schedule.split(row, [None, fragments.ROWS // 2])
    schedule.reorder(tile_m, tile_p, half, row, pair, own)
    schedule.bind(schedule.fuse(row, pair), "threadIdx.x")


def store_sums(
    schedule: Schedule, sums: BlockRV, stored: BlockRV, warp: LoopRV, *, paired: bool
) -> None:
    """Keep accumulators in registers of a warp; each lane stores its own at the end.

    ``paired`` is whether the innermost loop of ``stored`` is over pairs of pixels already.
    """
    schedule.set_scope(sums, 0, "warp")
    schedule.reverse_compute_at(stored, warp, preserve_unit_loops=True)
    if paired:
        *_, m, p, own = schedule.get_loops(stored)
    else:
        *_, m, p = schedule.get_loops(stored)
        p, own = schedule.split(p, [None, _PAIR])
    tile_m, row = schedule.split(m, [None, fragments.ROWS])
    tile_p, pair = schedule.split(p, [None, fragments.COLUMNS // _PAIR])
    own_sums(schedule, tile_m, tile_p, row, pair, own)


def multiply(schedule: Schedule, sums: BlockRV, part: LoopRV, precision: Precision) -> None:
    """Initialize accumulators before the first slice; the innermost loops are one instruction."""
    from tvmconv.tir.cuda.mma import mma_intrinsic
    from tvmconv.tvm_api.tirx import IndexMap

    first = schedule.decompose_reduction(sums, part)
    *_, tile_m, tile_p, row, column = schedule.get_loops(first)
    own_sums(schedule, tile_m, tile_p, row, *schedule.split(column, [None, _PAIR]))

    def place(z: Expr, g: Expr, m: Expr, p: Expr) -> tuple[Index, ...]:
        own = fragments.of_sums(m % fragments.ROWS, p % fragments.COLUMNS)
        return (z, g, m // fragments.ROWS, p // fragments.COLUMNS, *own)

    schedule.transform_layout(sums, ("write", 0), IndexMap.from_func(place, index_dtype="int32"))
    row = schedule.get_loops(sums)[-3]
    schedule.tensorize(row, mma_intrinsic(precision))
