"""Vectors of output channels of several groups: each lane reads the channels of its own group.

If a block of outputs belongs to two groups, it would multiply the input channels of both groups.
Each lane would multiply half of them by zeros. Here a vector gets its pixel values from two
broadcasts, one for each group, and a mask selects between them. Every multiplication counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import gcd

from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr


@lru_cache(maxsize=1024)
def selects_groups(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether lanes select the values of their groups.

    Groups of at most half a block of outputs would need a broadcast and more for each FMA. Where
    FMA units select lanes, each selection takes the place of an FMA.
    """
    w, lanes = workload, machine.channel_block
    if w.types != FLOAT32 or not machine.code.selects_lanes:
        return False
    outputs = w.out_channels // w.groups
    return w.groups > 1 and 2 * outputs > lanes and outputs % lanes > 0


@lru_cache(maxsize=1024)
def tile_groups(workload: Conv2dWorkload, machine: Machine, oc: int) -> int:
    """Maximum number of groups of a tile of ``oc`` output blocks."""
    w, width = workload, oc * machine.channel_block
    outputs = w.out_channels // w.groups
    ends = ((k, min(k + width, w.out_channels) - 1) for k in range(0, w.out_channels, width))
    return max(last // outputs - first // outputs + 1 for first, last in ends)


def channel_cut(workload: Conv2dWorkload, machine: Machine) -> tuple[int, int]:
    """Parts of the input channels of a group, and channels of a part, which one block holds."""
    inputs = workload.in_channels // workload.groups
    size = gcd(inputs, machine.channel_block)
    return inputs // size, size


def input_channel(
    workload: Conv2dWorkload, machine: Machine, group: Expr, part: Expr, channel: Expr
) -> tuple[Expr, Expr]:
    """The input block, and the channel in it, of a channel of a part of a group."""
    parts, size = channel_cut(workload, machine)
    begin = (group * parts + part) * size
    return begin // machine.channel_block, begin % machine.channel_block + channel


def own_value(
    workload: Conv2dWorkload,
    machine: Machine,
    oc: int,
    block: Expr,
    lane: Expr,
    read: Callable[[Expr], Expr],
) -> Expr:
    """``read(group)`` of the group of a lane of an output block.

    All ``oc`` blocks of a tile select from the same values, so that each is broadcast once.
    """
    from tvmconv.tvm_api import tirx

    w, lanes = workload, machine.channel_block
    outputs, count = w.out_channels // w.groups, tile_groups(workload, machine, oc)
    first = block // oc * (oc * lanes) // outputs
    value = read(tirx.min(first + (count - 1), w.groups - 1))
    for i in reversed(range(count - 1)):
        own = block * lanes + lane < (first + (i + 1)) * outputs
        value = tirx.Select(own, read(tirx.min(first + i, w.groups - 1)), value)
    return value
