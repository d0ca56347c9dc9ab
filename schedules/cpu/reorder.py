"""Conversion from the channel-blocked to the plain layout."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import blocks, has_operator, parallelize
from tvmconv.schedules.cpu import transpose
from tvmconv.tir.annotations import mark_tail
from tvmconv.tvm_api.types import PrimFunc, Schedule

# positions moved together: four stores of 16 bytes per channel fit the register file
_PIXELS = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule ``tvmconv.operators.layout.from_blocked``.

    1. Squares of positions and channels are transposed in registers, if the last block has channels
       enough: :mod:`tvmconv.schedules.cpu.transpose`.
    2. Otherwise a few positions of one channel block are read as whole vectors, transposed in
       registers and stored as short runs of each channel.
    3. Threads share channel blocks, then positions.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    found = blocks(schedule)
    if len(found) != 1 or not has_operator(schedule, found[0], "from_blocked"):
        return None
    if (squares := transpose.rule(func, machine)) is not None:
        return squares
    block = found[0]
    n, channel, h, w = block.loops
    pixels = block.extents[2] * block.extents[3]
    if pixels < 2 * _PIXELS:
        return None
    channel_block, channel = schedule.split(channel, [None, machine.channel_block])
    chunk, pixel = schedule.split(schedule.fuse(h, w), [None, _PIXELS])
    if pixels % _PIXELS:
        mark_tail(schedule, chunk, _PIXELS, pixels % _PIXELS)
    schedule.reorder(n, channel_block, chunk, channel, pixel)
    schedule.unroll(channel)
    schedule.vectorize(pixel)
    parallelize(schedule, [n, channel_block], block.work, machine.cores)
    return schedule
