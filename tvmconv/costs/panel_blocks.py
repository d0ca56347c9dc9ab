"""What blocks of packed panels cost: panels and weights that come from behind L2 again."""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.machines.record import Machine

# Fits to 119 sets of blocks that differ in nothing else (docs/im2col.md), and to direct against
# im2col on 58 layers: the share of all traffic that computing does not hide
_SHOWN = 0.25
# share of memory's rate at which weights are read again: some of them come from L3
_WEIGHT_SHARE = 0.96154
# reads that writing a panel behind L2 amounts to
_WRITE_COST = 3.0
# share of L2 that a block may take and stay there
_STAYS = 0.7
# cycles of beginning with a block's next group: pages and panels that were not used for long
_VISIT_CYCLES = 200.0


@dataclass(frozen=True)
class PanelBlocks:
    """A packed product, block by block: every block of panels passes all groups of channels.

    Parameters
    ----------
    machine
        The processor.
    panels, panel_bytes
        Of the packed input of one image.
    groups, weight_bytes
        Groups of output channels of a register tile, and all their weights.
    block
        Panels of a block.
    """

    machine: Machine
    panels: int
    panel_bytes: int
    groups: int
    weight_bytes: int
    block: int

    @property
    def count(self) -> int:
        """Blocks of one image."""
        return -(-self.panels // self.block)

    @property
    def panel_cycles(self) -> float:
        """Cycles of writing and reading panels behind L2, and of going from group to group."""
        visits = _VISIT_CYCLES * self.count * self.groups
        if self.block * self.panel_bytes <= _STAYS * self.machine.l2_bytes:
            return _SHOWN * visits
        moved = self.panels * self.panel_bytes * (self.groups + _WRITE_COST)
        return _SHOWN * (visits + moved / self.machine.rates.behind_l2)

    @property
    def weight_cycles(self) -> float:
        """Cycles of reading the weights again, once for each further block."""
        if self.weight_bytes <= self.machine.l2_bytes:
            return 0.0
        rate = _WEIGHT_SHARE * self.machine.rates.memory
        return _SHOWN * (self.count - 1) * self.weight_bytes / rate
