"""Moving single channels between the lanes of blocked tensors."""

from __future__ import annotations

from typing import Any

from tvmconv.schedules.common.nest import blocks, has_operator, inline_injective, parallelise

# statements of unrolled code that are still compiled within a second or two
_MOST_MOVES = 2048


def rule(func: Any, machine: Any) -> Any:
    """Schedule channel shuffles, and concatenations and slices that cross block borders.

    1. Blocks and lanes are unrolled inside of the loop over pixels: every channel number is a
       constant, so all divisions and conditions on it disappear.
    2. The compiler joins moves of neighbouring lanes to vector moves.
    3. Image rows are shared between the threads.
    """
    from tvm.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    names = ("shuffle", "concat_unaligned", "slice_unaligned")
    found = blocks(schedule)
    if not any(has_operator(schedule, block, *names) for block in found):
        return None
    inline_injective(schedule)
    found = blocks(schedule)
    if len(found) != 1 or found[0].kinds != "SSSSS":
        return None
    block = found[0]
    if block.extents[1] * block.extents[4] > _MOST_MOVES or not all(block.extents):
        return None
    n, channel_block, h, w, lane = block.loops
    schedule.reorder(n, h, w, channel_block, lane)
    schedule.unroll(channel_block)
    schedule.unroll(lane)
    rows = [n, h] if block.extents[2] >= 2 * machine.cores else [n, h, w]
    parallelise(schedule, rows, block.work, machine.cores)
    return schedule
