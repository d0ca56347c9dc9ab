"""Register tiles: accumulators in vector registers."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.machines.multiply import Multiply
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# blocks of dwords that a loop unrolls
_DWORD_BLOCKS = 2


def transform_tile(schedule: Schedule, block: BlockRV, at: LoopRV, *, strip: bool = False) -> None:
    """Schedule one pass of a Winograd transform, with its tile in registers or on the stack.

    The block's last loops are the tile's rows, its columns and the lanes. ``at`` is the consumer's
    loop over tiles, or over strips of tiles, whose columns stay a loop.
    """
    schedule.compute_at(block, at, preserve_unit_loops=True)
    schedule.set_scope(block, 0, "local")
    row, column, lane = schedule.get_loops(block)[-3:]
    schedule.reorder(column, row, lane)
    for loop in (row,) if strip else (column, row):
        schedule.unroll(loop)
    schedule.vectorize(lane)


def channel_steps(
    machine: Machine, channel: LoopRV, tile: Sequence[LoopRV]
) -> tuple[tuple[LoopRV, ...], tuple[LoopRV, ...]]:
    """The reduction loop over a channel block, and the loops of a register tile inside it.

    If FMAs multiply by lane, the reduction loop is the first loop of the tile and unrolled. One
    vector of channels then serves all its steps.
    """
    return ((), (channel, *tile)) if machine.code.by_lane else ((channel,), tuple(tile))


def dword_steps(
    schedule: Schedule, block: LoopRV, machine: Machine, dot: Multiply
) -> tuple[LoopRV, tuple[LoopRV, ...]]:
    """The loop over blocks of dwords, and the unrolled loop inside, the first loop of the tile.

    If a step is one instruction that multiplies by lane, the loop overhead is visible. The loop is
    then unrolled by two blocks.
    """
    if not machine.code.by_lane or dot.steps > 1 or int(schedule.get(block).extent) % _DWORD_BLOCKS:
        return block, ()
    outer, inner = schedule.split(block, [None, _DWORD_BLOCKS])
    return outer, (inner,)


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
    """Compute one tile of a reduction in vector registers, then pass it to its consumer.

    This is the microkernel of every dense kernel: convolutions, packed GEMM, fully connected layers
    and the GEMM of Winograd. They differ only in the loops around it.

    1. The tile loops are unrolled and the lane loop is vectorized, so that all indices of
       accumulators are constants. LLVM then promotes them to registers. A run-time index, even in
       the initialization or the write-back, would keep them in memory.
    2. The consumer moves under ``at`` and reads the accumulators directly. It is element-wise (an
       epilogue, or the store of a ``cache_write``). Or, if the reduction is cut into parts with
       loops around ``at``, it adds up the parts in memory.
    3. The initialization moves before the reduction loops.

    The caller has split and reordered the loops of ``block``. Outer loops come first, up to ``at``,
    then reduction loops from ``reduction`` on, tile loops and the lane loop. The accumulators fit
    the register file. Outer loops are already parallel, because TVM accepts that only while the
    reduction is one block. Unrolled steps of the reduction are the first of the tile loops.

    ``output`` is the only block that reads ``block``. One iteration of ``at`` computes one tile.
    ``reduction`` is the outermost reduction loop, and ``tile`` are the loops over the tile's
    vectors. The extent of ``lane`` is the machine's lane count. If the consumer's last loop is
    longer, it is cut into vectors of that length.
    """
    outer = schedule.get(at)
    levels = [schedule.get(loop).same_as(outer) for loop in schedule.get_loops(block)]
    depth = levels.index(True) + 1
    schedule.set_scope(block, 0, "local")
    schedule.reverse_compute_at(output, at, preserve_unit_loops=True)
    lanes = int(schedule.get(lane).extent)
    for loop in tile:
        schedule.unroll(loop)
    schedule.vectorize(lane)
    start = schedule.decompose_reduction(block, reduction)
    for inner in (list(schedule.get_loops(start))[depth:], _moved_loops(schedule, output)):
        *rows, last = inner
        if int(schedule.get(last).extent) > lanes:
            vectors, last = schedule.split(last, [None, lanes])
            rows.append(vectors)
        for loop in rows:
            schedule.unroll(loop)
        schedule.vectorize(last)


def _moved_loops(schedule: Schedule, block: BlockRV) -> list[LoopRV]:
    """The spatial loops that ``reverse_compute_at`` made around a block.

    It makes one loop for each axis. The loop of a reduction axis, which is a part of the reduction,
    has one iteration and needs no treatment.
    """
    from tvmconv.tvm_api import tirx

    axes = list(schedule.get(block).iter_vars)
    loops = list(schedule.get_loops(block))[-len(axes) :]
    pairs = zip(axes, loops, strict=True)
    return [loop for axis, loop in pairs if axis.iter_type != tirx.IterVar.CommReduce]
