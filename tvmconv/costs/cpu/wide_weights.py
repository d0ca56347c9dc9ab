"""The cost model of direct convolution whose weights are widened before its loop over steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvmconv.core.config import Config
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import TileModel

# number of tiles from which widening pays, and up to which the first tile does it, in separate code
_FEWEST_TILES, _FEW_TILES = 4, 48
# output blocks and maximum accumulators of such tiles: with more, LLVM spilled next to the stores
_BLOCKS, _FEW_SUMS = 2, 10


@dataclass(frozen=True)
class WideTileModel(TileModel):
    """Costs of tiles of :class:`TileModel` with widened weights.

    The parameter ``wide`` is 1 if weights are widened before their tiles, 2 if by the first tile.
    """

    wide: int = 1

    @property
    def whole_blocks(self) -> bool:
        """A thread widens the weights of a cache block once."""
        return True

    @property
    def pass_cycles(self) -> float:
        """Cycles of widening all weights."""
        vectors = self.shape.out_planes * self.steps * self.out_blocks
        return vectors * (constants.WIDENED_BY_FIRST if self.wide > 1 else constants.WIDENED)

    def tiles(self) -> list[tuple[int, int, int]]:
        """Tiles of several blocks are for pixelwise layers, and have one row.

        With taps, LLVM spilled tiles of less than whole width, which took twice as long. It did not
        spill small tiles if the first one widens.
        """
        if self.wide > 1:
            return [
                (oc, oh, ow)
                for oc, oh, ow in super().tiles()
                if oc == _BLOCKS and oh == 1 and oc * ow <= _FEW_SUMS
            ]
        pixelwise = self.taps == 1
        return [tile for tile in super().tiles() if tile[0] == 1 or (tile[1] == 1 and pixelwise)]

    def tile_cycles(self, oc: int, pixels: int, columns: int = 0, steps: int = 0) -> float:
        """Cycles of one register tile over the whole reduction."""
        found = super().tile_cycles(oc, pixels, columns, steps)
        if self.wide > 1:
            return found * constants.FEW_ACCUMULATORS
        return found + (self.steps * pixels * constants.ONE_BLOCK_STEP if oc == 1 else 0.0)

    def pays(self, config: Config) -> bool:
        """Whether enough tiles use each widened vector, and tasks suffice for the cores."""
        oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
        blocks, tasks = self._passes(config), self.machine.cores
        if self.shape.out_height > 1:
            tasks = self.shape.out_planes * blocks * ceil(self.out_blocks / oc)
        cores = self.machine.cores
        uneven = ceil(tasks / cores) * cores / tasks
        tiles = self.places(oh, ow) / blocks
        few = self.wide == 1 or tiles <= _FEW_TILES
        return few and tiles >= _FEWEST_TILES and uneven <= constants.UNEVEN_TASKS

    def parts(self, config: Config) -> dict[str, float]:
        """Parts of :class:`TileModel`, with cycles of widening."""
        found = super().parts(config)
        found["arithmetic"] += self._passes(config) * self.pass_cycles / self.machine.cores
        return found

    def _passes(self, config: Config) -> int:
        """Cache blocks, each of which widens the weights again."""
        w, rows = self.shape, config.int("rows")
        if not rows:
            return 1
        places = w.out_width / config.int("ow") if w.out_height == 1 else w.out_height
        count = ceil(places) if w.out_height == 1 else ceil(places / config.int("oh"))
        return ceil(count / rows)
