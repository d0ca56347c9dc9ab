"""Tiles of values that live in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule


def transform_tile(schedule: Schedule, block: BlockRV, at: LoopRV) -> None:
    """One pass of a Winograd transform: the values of a tile in registers, or on the stack.

    The block's last loops are the tile's rows, its columns and the lanes; ``at`` is the loop of
    the consumer over tiles.
    """
    schedule.compute_at(block, at, preserve_unit_loops=True)
    schedule.set_scope(block, 0, "local")
    row, column, lane = schedule.get_loops(block)[-3:]
    schedule.reorder(column, row, lane)
    for loop in (column, row):
        schedule.unroll(loop)
    schedule.vectorize(lane)


def register_tile(
    schedule: Schedule,
    block: BlockRV,
    output: BlockRV,
    *,
    at: LoopRV,
    reduction: LoopRV,
    tile: Sequence[LoopRV],
    lane: LoopRV,
) -> None:
    """Keep one tile of a reduction in registers and store it through the epilogue.

    1. The tile loops are unrolled and the lane loop is vectorised, so that the accumulators are
       indexed by constants only; LLVM then promotes them to registers. (A runtime index, even in
       the initialisation or the write-back, would pin them to memory.)
    2. The epilogue block moves under ``at`` and reads the accumulators directly.
    3. The initialisation moves in front of the reduction loops.

    The caller has split and reordered the loops of ``block`` into outer loops up to ``at``,
    reduction loops from ``reduction`` on, the tile loops and the lane loop, has kept the number
    of accumulators within the register file, and has made outer loops parallel already (TVM
    accepts that only while the reduction is one block).

    Parameters
    ----------
    schedule
        The ``s_tir.Schedule``.
    block, output
        The reduction block and the element-wise block that consumes it.
    at
        Innermost outer loop: one iteration computes one tile.
    reduction
        Outermost reduction loop.
    tile
        The loops over the tile's vectors.
    lane
        The loop over one vector; its extent is the machine's lane count.
    """
    outer = schedule.get(at)
    levels = [schedule.get(loop).same_as(outer) for loop in schedule.get_loops(block)]
    depth = levels.index(True) + 1
    schedule.reverse_compute_at(output, at, preserve_unit_loops=True)
    for loop in tile:
        schedule.unroll(loop)
    schedule.vectorize(lane)
    start = schedule.decompose_reduction(block, reduction)
    for companion in (start, output):
        *inner, last = schedule.get_loops(companion)[depth:]
        for loop in inner:
            schedule.unroll(loop)
        schedule.vectorize(last)
