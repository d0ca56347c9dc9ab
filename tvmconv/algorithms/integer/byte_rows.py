"""Layout of the packed weights of INT8 kernels that saturate, and their number of steps."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.algorithms.integer.saturation import DWORD, MASKS
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine


def regular_steps(workload: Conv2dWorkload, machine: Machine) -> int:
    """Reduction steps without excess: dwords of channels, times taps."""
    return channels_in_dwords(workload, machine) // DWORD * workload.kernel_h * workload.kernel_w


def channels_in_dwords(workload: Conv2dWorkload, machine: Machine) -> int:
    """Input channels that are read, in whole dwords."""
    if workload.in_channels < machine.channel_block:
        return -(-workload.in_channels // DWORD) * DWORD
    return machine.blocks(workload.in_channels) * machine.channel_block


# parts of a reduction: joined pairs of steps, then single steps. Data are complemented in the loop
# over single steps only, if no complemented copy exists
PARTS = 2


@dataclass(frozen=True)
class Rows:
    """Rows of the packed weight, ``(k, 4)`` bytes each, at which its parts begin.

    Dwords of weights come first, one row for each step. The steps of an output block are
    contiguous, joined steps first. Blocks may have different numbers of steps. All other rows are
    int32:

    - ``places``: the offset that each step reads, in dwords from an output's first position. For
      data that are not packed, the lowest bits are the index of a mask.
    - ``starts``: the first step of each part of each block, and the total.
    - ``masks``: :data:`~tvmconv.algorithms.integer.saturation.MASKS`, one row each. LLVM would XOR
      broadcast scalars before it broadcasts them, which takes twice as many instructions.
    - ``missing``: the correction of the accumulators for complemented data, one row for each block.
    """

    places: int
    starts: int
    masks: int
    missing: int
    end: int

    @classmethod
    def of(cls, workload: Conv2dWorkload, machine: Machine, config: Config) -> Rows:
        """The rows of a kernel."""
        lanes, blocks = machine.channel_block, machine.blocks(workload.out_channels)
        places = blocks * (regular_steps(workload, machine) + config.int("excess"))
        starts = places + -(-places // lanes)
        masks = starts + -(-(PARTS * blocks + 1) // lanes)
        missing = masks + (0 if config.int("packed") else len(MASKS))
        return cls(places, starts, masks, missing, missing + blocks)
