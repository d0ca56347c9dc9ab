"""The cost model of direct convolution whose weights are widened before its loop over steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvmconv.core.config import Config
from tvmconv.costs.register_tile import TileModel

# cycles by which a step is longer for each sum of a tile of one block, which broadcasts a word for
# each: loops of two blocks by 6 pixels took 0.96 to 1.01 of the time of one by 14 (Zen 4)
_ONE_BLOCK = 0.012
# cycles of a vector that is widened and stored, and tiles from which on it pays: with four nothing
# was gained (1x1, 512 channels of 7x7), nor with the 49 pixels of 3x3 there
_WIDENED, _LEAST_TILES, _LEAST_PIXELS = 1.25, 5, 64
# by how much tasks may be uneven
_UNEVEN = 1.05


@dataclass(frozen=True)
class WideTileModel(TileModel):
    """Costs of tiles as of :class:`TileModel`, with weights of :mod:`wide_weights`."""

    def tiles(self) -> list[tuple[int, int, int]]:
        """Tiles of several blocks are for pixelwise layers, and of one row.

        With taps LLVM spilled those of less than whole width, and they took twice as long.
        """
        return [
            (oc, oh, ow)
            for oc, oh, ow in super().tiles()
            if oc == 1 or (oh == 1 and self.taps == 1)
        ]

    def tile_cycles(self, oc: int, pixels: int) -> float:
        """Cycles of one register tile over the whole reduction."""
        found = super().tile_cycles(oc, pixels)
        return found + (self.steps * pixels * _ONE_BLOCK if oc == 1 else 0.0)

    def pays(self, config: Config) -> bool:
        """Whether enough tiles use each widened vector, and tasks suffice for the cores."""
        oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
        blocks, tasks = self._passes(config), self.machine.cores
        if self.shape.out_height > 1:
            tasks = self.shape.out_planes * blocks * ceil(self.out_blocks / oc)
        cores = self.machine.cores
        uneven = ceil(tasks / cores) * cores / tasks
        if self.taps > 1 and self.shape.out_height * self.shape.out_width < _LEAST_PIXELS:
            return False
        return self._places(oh, ow) >= _LEAST_TILES * blocks and uneven <= _UNEVEN

    def parts(self, config: Config) -> dict[str, float]:
        """As of :class:`TileModel`, and cycles of widening."""
        found = super().parts(config)
        vectors = self.shape.out_planes * self._passes(config) * self.steps * self.out_blocks
        found["arithmetic"] += vectors * _WIDENED / self.machine.cores
        return found

    def _passes(self, config: Config) -> int:
        """Cache blocks, each of which widens the weights anew."""
        w, rows = self.shape, config.int("rows")
        if not rows:
            return 1
        places = w.out_width / config.int("ow") if w.out_height == 1 else w.out_height
        count = ceil(places) if w.out_height == 1 else ceil(places / config.int("oh"))
        return ceil(count / rows)
