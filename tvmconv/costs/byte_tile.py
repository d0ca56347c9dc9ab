"""The cost model of direct convolution by products of bytes: tiles of one output block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tvmconv.algorithms.direct_bytes import regular_steps
from tvmconv.core.config import Config
from tvmconv.costs.microkernel import ROUNDING, Microkernel
from tvmconv.costs.register_tile import TileModel
from tvmconv.machines.dot import multiplications_a_cycle

# a block of weights, a product, and the factor that adds products of 16 bits
_BESIDE_SUMS = 3
# of a step for one pixel, and what a step's loop costs
_MULTIPLICATIONS, _STEP_CYCLES = 2, 0.25
# Shares of a kernel's steps that its excess may take. Normally distributed weights whose largest
# are 3.5 to 4.5 times their deviation need 4 to 30 %; pairs of 16 bits are as fast as a fourth.
_SHARES = (0, 1 / 32, 1 / 16, 3 / 32, 1 / 8, 3 / 16)


def excess_sizes(steps: int) -> tuple[int, ...]:
    """Steps for excess that kernels are made with; few, so that layers share them."""
    return tuple(dict.fromkeys(int(-(-steps * share // 1)) for share in _SHARES))


@dataclass(frozen=True)
class ByteTileModel(TileModel):
    """Costs of tiles of ``oh`` rows and ``ow`` columns of one output block.

    Parameters
    ----------
    excess
        Steps beside those of all weights.
    """

    excess: int = 0

    @cached_property
    def steps(self) -> int:
        """All steps of a tile."""
        return regular_steps(self.workload, self.machine) + self.excess

    def tile_cycles(self, oc: int, pixels: int) -> float:
        """Cycles of one register tile: two of a step's three instructions are multiplications.

        Differences find other units: 228 of 228 Gop/s on Zen 4.
        """
        rate = multiplications_a_cycle(self.machine)
        around = Microkernel(self.machine, pixels, 1).cycles(0)
        if self.workload.types.is_requantised:
            around += pixels * ROUNDING / rate
        step = max(_MULTIPLICATIONS * pixels / rate, 1.0)
        return self.steps * (step + _STEP_CYCLES) + around

    def registers(self, oc: int, oh: int, ow: int) -> int:
        """Vector registers of a tile."""
        return oh * ow + _BESIDE_SUMS

    def tiles(self) -> list[tuple[int, int, int]]:
        """Tiles of one block and one row, or two where rows are short."""
        w, most = self.shape, self.machine.vector_registers - _BESIDE_SUMS
        heights = (1, 2) if 2 * w.out_width <= most else (1,)
        return [
            (1, height, width)
            for height in heights
            for width in range(1, min(w.out_width, most // height) + 1)
            if height <= w.out_height
        ]

    def parts(self, config: Config) -> dict[str, float]:
        """As of :class:`TileModel`."""
        return super().parts(Config.of(**config, oc=1))
