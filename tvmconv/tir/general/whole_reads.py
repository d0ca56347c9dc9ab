"""Makes blocks of a schedule read whole segments of a buffer."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tvmconv.tir.general.rewrite import block_with
from tvmconv.tvm_api.types import BlockRV, Schedule


def read_whole(schedule: Schedule, reader: BlockRV, writer: BlockRV) -> None:
    """Let a block read whole segments of another block's buffer, even if it needs fewer channels.

    The other block then writes whole segments, wherever its loops are placed.
    """
    block: Any = schedule.get(reader)
    buffer = schedule.get(writer).writes[0].source

    def whole(region: Any) -> Any:
        if not region.source.same_as(buffer):
            return region
        lanes = ir.Range.from_min_extent(0, buffer.shape[-1])
        return tirx.BufferRegion(buffer, [*region.region[:-1], lanes])

    changed = block_with(block, reads=[whole(region) for region in block.reads])
    schedule.state.replace(schedule.get_sref(reader), changed, {block: changed})
