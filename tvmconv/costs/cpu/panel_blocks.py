"""The block of packed rows in L2, and its cost if it does not fit or is too small.

The loops are GEBP's by Goto and van de Geijn. A block of panels of rows is packed, then every group
of columns passes over it. gemm and im2col choose their blocks by this model. They differ in
other contents of L2, and in the visible delay of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvmconv.costs.cpu import constants
from tvmconv.machines.record import Machine

# multiple of the size of L2 from which each tile reads the weights of a group again
FAR_BEYOND = 2


def weights_again(machine: Machine, weight_bytes: int, groups: int, tiles: int) -> float:
    """Cycles of reading weights for each further tile of pixels, if they exceed L2.

    Deep reductions have such weights: two output blocks of 1024 channels by 64 taps have 8 MB. All
    weights are read by ``groups`` of output blocks, each by ``tiles`` of pixels.
    """
    if weight_bytes // groups <= FAR_BEYOND * machine.l2_bytes:
        return 0.0
    return constants.TRAFFIC_SHOWN * (tiles - 1) * weight_bytes / machine.rates.memory


def rate_of(machine: Machine, stored: float) -> float:
    """Bytes a cycle of a block of so many bytes, which exceeds L2, and maybe the last cache."""
    rates = machine.rates
    return rates.behind_l2 if stored <= machine.last_cache_bytes else rates.memory


@dataclass(frozen=True)
class PanelBlocks:
    """A packed product, block by block: every group of columns passes over every block of panels.

    A panel has as many rows as a register tile: pixels of one image, or slivers of A. A group has
    as many columns as a register tile. ``weight_bytes`` are bytes of all groups; 0 for B, which is
    prefetched from L3 without delay. ``block`` counts panels of a block. ``others`` are bytes that
    have to stay in L2 in addition to the block, and ``share`` is the share of L2 in which both
    stay.
    """

    machine: Machine
    panels: int
    panel_bytes: int
    groups: int
    weight_bytes: int
    block: int
    others: int = 0
    # read when a block is made: a fit replaces constants
    share: float = field(default_factory=lambda: constants.BLOCK_STAYS)

    @property
    def count(self) -> int:
        """Blocks of one image."""
        return -(-self.panels // self.block)

    @property
    def panel_cycles(self) -> float:
        """Cycles of writing and reading panels beyond L2, and of the first use by each group."""
        visits = constants.VISIT_CYCLES * self.count * self.groups
        if self.block * self.panel_bytes + self.others <= self.share * self.machine.l2_bytes:
            return constants.TRAFFIC_SHOWN * visits
        moved = self.panels * self.panel_bytes * (self.groups + constants.PANEL_WRITE)
        rate = rate_of(self.machine, self.block * self.panel_bytes)
        return constants.TRAFFIC_SHOWN * (visits + moved / rate)

    @property
    def weight_cycles(self) -> float:
        """Cycles of reading the weights again, once for each further block."""
        if self.weight_bytes <= self.machine.l2_bytes:
            return 0.0
        rate = constants.WEIGHT_SHARE * self.machine.rates.memory
        return constants.TRAFFIC_SHOWN * (self.count - 1) * self.weight_bytes / rate
