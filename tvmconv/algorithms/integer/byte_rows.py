"""How the packed weights of products of bytes lie, and how many steps they take."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.algorithms.integer.saturation import MASKS, WORD
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine


def regular_steps(workload: Conv2dWorkload, machine: Machine) -> int:
    """Steps of a sum of any weights: words of channels, times taps."""
    return channels_read_by_words(workload, machine) // WORD * workload.kernel_h * workload.kernel_w


def channels_read_by_words(workload: Conv2dWorkload, machine: Machine) -> int:
    """Input channels that are read, in whole words."""
    if workload.in_channels < machine.channel_block:
        return -(-workload.in_channels // WORD) * WORD
    return machine.blocks(workload.in_channels) * machine.channel_block


# loops over steps: those in twos, and others; complements are taken of the latter's data alone
# where none lie beside it
PARTS = 2


@dataclass(frozen=True)
class Rows:
    """Rows of the packed weight, ``(k, 4)`` bytes each, with which its parts begin.

    Words of weights come first, one row a step. The steps of an output block follow each other,
    those in twos first; blocks may have different numbers of them. All else is int32.

    Parameters
    ----------
    places
        Where each step reads, in words from an output's first pixel; of data that are not packed
        with the index of a mask in the lowest bits.
    starts
        The first step of each part of each block, and of one more.
    masks
        :data:`~tvmconv.algorithms.integer.saturation.MASKS`, a row each. (Of scalars that are
        spread LLVM xors the scalars and spreads the result, which takes twice as many
        instructions.)
    missing
        What complements take off the sums of each block, one row a block.
    end
        Of all.
    """

    places: int
    starts: int
    masks: int
    missing: int
    end: int

    @classmethod
    def of(cls, workload: Conv2dWorkload, machine: Machine, config: Config) -> Rows:
        """Those of a kernel."""
        lanes, blocks = machine.channel_block, machine.blocks(workload.out_channels)
        places = blocks * (regular_steps(workload, machine) + config.int("excess"))
        starts = places + -(-places // lanes)
        masks = starts + -(-(PARTS * blocks + 1) // lanes)
        missing = masks + (0 if config.int("packed") else len(MASKS))
        return cls(places, starts, masks, missing, missing + blocks)
