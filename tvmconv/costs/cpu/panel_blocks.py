"""The block of packed rows that stays in L2: what it costs where it does not, or is too small.

The loops are those of Goto and van de Geijn's GEBP: a block of panels of rows is packed, then every
group of columns passes over it. gemm and im2col choose their blocks by it; they differ in what else
has to find room in L2, and in whether the columns' arrival shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvmconv.costs.cpu import constants
from tvmconv.machines.record import Machine

# times the size of L2 from where on each tile reads the weights of a group again
FAR_BEYOND = 2


def weights_again(machine: Machine, weight_bytes: int, groups: int, tiles: int) -> float:
    """Cycles of reading weights for each further tile of pixels, where L2 holds no part of them.

    Deep reductions have such: of 1024 channels by 64 taps, two output blocks have 8 MB.

    Parameters
    ----------
    machine
        The processor.
    weight_bytes, groups
        All weights, and the groups of output blocks that they are read by.
    tiles
        Tiles of pixels that read each group.
    """
    if weight_bytes // groups <= FAR_BEYOND * machine.l2_bytes:
        return 0.0
    return constants.TRAFFIC_SHOWN * (tiles - 1) * weight_bytes / machine.rates.memory


@dataclass(frozen=True)
class PanelBlocks:
    """A packed product, block by block: every group of columns passes over every block of panels.

    Parameters
    ----------
    machine
        The processor.
    panels, panel_bytes
        Panels of rows as high as a register tile: pixels of one image, or slivers of A.
    groups, weight_bytes
        Groups of columns as wide as a register tile, and bytes of all of them that are waited for:
        weights; 0 where they are prefetched from L3, as B is.
    block
        Panels of a block.
    beside
        Bytes that have to stay in L2 beside the block.
    share
        Share of L2 that both may take and stay there.
    """

    machine: Machine
    panels: int
    panel_bytes: int
    groups: int
    weight_bytes: int
    block: int
    beside: int = 0
    # read when a block is made: a fit replaces constants
    share: float = field(default_factory=lambda: constants.BLOCK_STAYS)

    @property
    def count(self) -> int:
        """Blocks of one image."""
        return -(-self.panels // self.block)

    @property
    def panel_cycles(self) -> float:
        """Cycles of writing and reading panels behind L2, and of going from group to group."""
        visits = constants.VISIT_CYCLES * self.count * self.groups
        if self.block * self.panel_bytes + self.beside <= self.share * self.machine.l2_bytes:
            return constants.TRAFFIC_SHOWN * visits
        moved = self.panels * self.panel_bytes * (self.groups + constants.PANEL_WRITE)
        return constants.TRAFFIC_SHOWN * (visits + moved / self.machine.rates.behind_l2)

    @property
    def weight_cycles(self) -> float:
        """Cycles of reading the weights again, once for each further block."""
        if self.weight_bytes <= self.machine.l2_bytes:
            return 0.0
        rate = constants.WEIGHT_SHARE * self.machine.rates.memory
        return constants.TRAFFIC_SHOWN * (self.count - 1) * self.weight_bytes / rate
