"""Cycles of conversions between the plain and the channel-blocked layout."""

from __future__ import annotations

from math import prod

from tvmconv.core.datatypes import itemsize
from tvmconv.costs.cpu import constants
from tvmconv.machines.record import Machine


def reorder_cycles(shape: tuple[int, ...], machine: Machine, dtype: str = "float32") -> float:
    """Cycles of a layout change, which moves the plain tensor and the padded blocks."""
    channels, rates = shape[1], machine.rates
    size = itemsize(dtype) * prod(shape)
    moved = size * (1 + machine.blocks(channels) * machine.channel_block / channels)
    if moved > machine.last_cache_bytes:
        rate = constants.REORDER_MEMORY * rates.memory
    elif moved > machine.l2_bytes:
        rate = constants.REORDER_L3 * rates.l3
    else:
        rate = constants.REORDER_L2 * rates.l2
    return constants.REORDER_CALL + moved / rate
