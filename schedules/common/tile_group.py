"""Groups of AMX tiles in tile registers."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.tir.annotations import mark_tile
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule


def tile_group(
    schedule: Schedule,
    block: BlockRV,
    sums: BlockRV,
    output: BlockRV,
    *,
    at: LoopRV,
    reduction: LoopRV,
    group: Sequence[LoopRV],
    pixel: LoopRV,
) -> None:
    """Compute a group of tiles of a reduction in tile registers, then pass it to its consumer.

    As :func:`~tvmconv.schedules.common.microkernel.register_tile`, for AMX tiles. Initialization,
    products and stores become nests of loops that the AMX passes match.

    ``sums`` copies the accumulators of ``block`` to memory, and ``output`` reads the copy. One
    iteration of ``at`` computes one group. ``reduction`` is the outermost reduction loop, and
    ``group`` are the loops over the group's tiles. ``pixel`` is the loop over the rows of a tile,
    around the loops over its lanes and bytes.
    """
    pixels = int(schedule.get(pixel).extent)
    for scoped in (block, sums):
        schedule.set_scope(scoped, 0, "local")
    for consumer in (sums, output):
        schedule.reverse_compute_at(consumer, at, preserve_unit_loops=True)
    for loop in group:
        schedule.unroll(loop)
    start = schedule.decompose_reduction(block, reduction)
    mark_tile(schedule, pixel)
    for around in (start, sums):
        *_, kb, h, x, _lane = schedule.get_loops(around)
        tile, row = schedule.split(x, [None, pixels])
        for loop in (kb, h, tile):
            schedule.unroll(loop)
        mark_tile(schedule, row)
    *rows, last = schedule.get_loops(output)[-4:]
    for loop in rows:
        schedule.unroll(loop)
    schedule.vectorize(last)
