"""The cost model of direct convolution whose weights are widened before its loop over steps."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvmconv.core.config import Config
from tvmconv.costs.cpu.direct import TileModel

# cycles by which a step is longer for each sum of a tile of one block, which broadcasts a word for
# each: loops of two blocks by 6 pixels took 0.96 to 1.01 of the time of one by 14 (Zen 4)
_ONE_BLOCK = 0.012
# cycles of a vector that is widened and stored, before the tiles that use it and by the first one
_WIDENED, _BY_FIRST = 1.25, 0.5
# tiles from which on widening pays, and up to which the first one does it, as code of its own
_LEAST_TILES, _FEW_TILES = 4, 48
# Output blocks and most sums of such tiles: of fuller ones LLVM spilled sums beside the stores.
# Tiles of two blocks took 0.9 to 0.99 of the time of others on planes of 7x7 and 14x14 (ResNet-50,
# Zen 4), and 1.02 on one of eleven, 1x1 with a stride; 0.95 of what is counted for so few sums.
_BLOCKS, _FEW_SUMS, _MEASURED = 2, 10, 0.95
# by how much tasks may be uneven
_UNEVEN = 1.05


@dataclass(frozen=True)
class WideTileModel(TileModel):
    """Costs of tiles as of :class:`TileModel`, with weights of :mod:`wide_weights`.

    Parameters
    ----------
    workload, machine
        See the base class.
    wide
        The knob: 1 where weights are widened before the tiles that use them, 2 by the first one.
    """

    wide: int = 1

    def tiles(self) -> list[tuple[int, int, int]]:
        """Tiles of several blocks are for pixelwise layers, and of one row.

        With taps LLVM spilled those of less than whole width, and they took twice as long. It does
        not where they are few and the first one widens.
        """
        if self.wide > 1:
            return [
                (oc, oh, ow)
                for oc, oh, ow in super().tiles()
                if oc == _BLOCKS and oh == 1 and oc * ow <= _FEW_SUMS
            ]
        return [
            (oc, oh, ow)
            for oc, oh, ow in super().tiles()
            if oc == 1 or (oh == 1 and self.taps == 1)
        ]

    def tile_cycles(self, oc: int, pixels: int, columns: int = 0) -> float:
        """Cycles of one register tile over the whole reduction."""
        found = super().tile_cycles(oc, pixels, columns)
        if self.wide > 1:
            return found * _MEASURED
        return found + (self.steps * pixels * _ONE_BLOCK if oc == 1 else 0.0)

    def pays(self, config: Config) -> bool:
        """Whether enough tiles use each widened vector, and tasks suffice for the cores."""
        oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
        blocks, tasks = self._passes(config), self.machine.cores
        if self.shape.out_height > 1:
            tasks = self.shape.out_planes * blocks * ceil(self.out_blocks / oc)
        cores = self.machine.cores
        uneven = ceil(tasks / cores) * cores / tasks
        tiles = self._places(oh, ow) / blocks
        few = self.wide == 1 or tiles <= _FEW_TILES
        return few and tiles >= _LEAST_TILES and uneven <= _UNEVEN

    def parts(self, config: Config) -> dict[str, float]:
        """As of :class:`TileModel`, and cycles of widening."""
        found = super().parts(config)
        vectors = self.shape.out_planes * self._passes(config) * self.steps * self.out_blocks
        each = _BY_FIRST if self.wide > 1 else _WIDENED
        found["arithmetic"] += vectors * each / self.machine.cores
        return found

    def _passes(self, config: Config) -> int:
        """Cache blocks, each of which widens the weights anew."""
        w, rows = self.shape, config.int("rows")
        if not rows:
            return 1
        places = w.out_width / config.int("ow") if w.out_height == 1 else w.out_height
        count = ceil(places) if w.out_height == 1 else ceil(places / config.int("oh"))
        return ceil(count / rows)
