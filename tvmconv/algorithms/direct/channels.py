"""The input channels that register tiles of direct convolution read, and their channel blocks.

A dense layer reads all channels, and the last block may hold fewer. Output blocks of a grouped
layer read the channels of their groups, which may begin and end inside a block. Packed weights are
zero for the other channels of these blocks. FP32 kernels skip the zeros: see
:func:`skips_channels`. Dense INT8 kernels skip half a block of zeros: see :func:`halves_of_block`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import overload

from tvmconv.algorithms.direct.group_lanes import selects_groups
from tvmconv.algorithms.integer.dwords import block_read, channels_read, dword_size
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index


@lru_cache(maxsize=1024)
def skips_channels(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether tiles skip channels of their blocks, or blocks, where they would multiply zeros.

    FMAs that multiply by lane read whole vectors of channels, and so do scalable vectors.
    """
    w, lanes = workload, machine.channel_block
    if w.types != FLOAT32 or machine.code.by_lane or machine.vector.scalable:
        return False
    if w.groups == 1:
        return w.in_channels > lanes and w.in_channels % lanes > 0
    if selects_groups(w, machine):
        return False
    parts = tile_channels(w, machine, 1)
    # blocks of outputs in two groups read more inputs than blocks in one
    uneven = len({end - begin for begin, end in parts}) > 1
    return uneven or any(end % lanes for part in parts for end in part)


def halves_of_block(workload: Conv2dWorkload, machine: Machine) -> int:
    """Parts of a channel block that are separate iterations of a reduction over dwords: 1 or 2.

    Two if the last block of a dense layer has at most half its channels. The last half, whose
    weights are zero, is then skipped. Dwords that are multiplied by lane are read by whole blocks.
    """
    w, block = workload, block_read(workload, machine)
    if w.groups > 1 or machine.code.by_lane or machine.vector.scalable:
        return 1
    if not multiply_of(w, machine).is_packed or block % (4 * dword_size(w, machine)):
        return 1
    return 2 if w.in_channels > block and 0 < w.in_channels % block <= block // 2 else 1


def dword_blocks(
    workload: Conv2dWorkload, machine: Machine, *, halves: bool = True
) -> tuple[int, int]:
    """Iterations of a reduction over packed types for each tap, and the dwords of one.

    An iteration reads a channel block or, with ``halves``, a part: :func:`halves_of_block`.
    """
    dwords = channels_read(workload, machine) // dword_size(workload, machine)
    if not halves or halves_of_block(workload, machine) == 1:
        return input_span(workload, machine), dwords
    return 2 * input_span(workload, machine) - 1, dwords // 2


@lru_cache(maxsize=1024)
def tile_channels(
    workload: Conv2dWorkload, machine: Machine, oc: int
) -> tuple[tuple[int, int], ...]:
    """Half-open ranges of the input channels that tiles of ``oc`` output blocks read."""
    w, width = workload, oc * machine.channel_block
    inputs, outputs = w.in_channels // w.groups, w.out_channels // w.groups
    found = []
    for first in range(0, w.out_channels, width):
        last = min(first + width, w.out_channels) - 1
        found.append((first // outputs * inputs, (last // outputs + 1) * inputs))
    return tuple(found)


@lru_cache(maxsize=1024)
def input_span(workload: Conv2dWorkload, machine: Machine, oc: int = 1) -> int:
    """Input blocks that ``oc`` output blocks read; the same number for all tiles."""
    if workload.groups == 1:
        return -(-workload.in_channels // block_read(workload, machine))
    lanes = machine.channel_block
    tiles = tile_channels(workload, machine, oc)
    return max((end - 1) // lanes - begin // lanes + 1 for begin, end in tiles)


@overload
def first_block(workload: Conv2dWorkload, machine: Machine, block: int, oc: int = 1) -> int: ...
@overload
def first_block(workload: Conv2dWorkload, machine: Machine, block: Expr, oc: int = 1) -> Index: ...
def first_block(workload: Conv2dWorkload, machine: Machine, block: Index, oc: int = 1) -> Index:
    """First input block of an output block, which shares it with ``oc`` blocks of its tile.

    ``block`` is an integer or an index expression. The result is clamped, so that the constant
    number of blocks after it exists.
    """
    if workload.groups == 1:
        return 0
    lanes = machine.channel_block
    base = _first_channel(workload, machine, block // oc, oc) // lanes
    last = machine.blocks(workload.in_channels) - input_span(workload, machine, oc)
    if isinstance(base, int):
        return min(base, last)
    from tvmconv.tvm_api import tirx

    highest = tile_channels(workload, machine, oc)[-1][0] // lanes
    return base if highest <= last else tirx.min(base, last)


def channel_tests(
    workload: Conv2dWorkload, machine: Machine, tile: Expr, oc: int, block: Index, c: Expr
) -> Sequence[Expr]:
    """Whether a tile of ``oc`` output blocks reads channel ``c`` of an input block."""
    from tvmconv.tvm_api import tirx

    w, lanes = workload, machine.channel_block
    if w.groups == 1:
        return [c < w.in_channels - block * lanes]
    inputs, outputs = w.in_channels // w.groups, w.out_channels // w.groups
    after = tirx.min((tile + 1) * (oc * lanes), w.out_channels) - 1
    end = (after // outputs + 1) * inputs
    begin = _first_channel(w, machine, tile, oc)
    return [begin - block * lanes <= c, c < end - block * lanes]


@overload
def _first_channel(workload: Conv2dWorkload, machine: Machine, tile: int, oc: int) -> int: ...
@overload
def _first_channel(workload: Conv2dWorkload, machine: Machine, tile: Expr, oc: int) -> Expr: ...
def _first_channel(workload: Conv2dWorkload, machine: Machine, tile: Index, oc: int) -> Index:
    inputs = workload.in_channels // workload.groups
    outputs = workload.out_channels // workload.groups
    return tile * (oc * machine.channel_block) // outputs * inputs
