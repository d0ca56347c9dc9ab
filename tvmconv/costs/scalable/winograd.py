"""The cost model of Winograd convolution whose products are computed by scalable vectors."""

from __future__ import annotations

from collections.abc import Iterator

from tvmconv.algorithms.winograd.tiles import block_channels, region_tiles, summed_products, tiling
from tvmconv.core.config import Config
from tvmconv.costs.cpu import constants as cpu_constants
from tvmconv.costs.cpu.winograd import WinogradModel
from tvmconv.costs.cuts import divisors
from tvmconv.costs.scalable import constants
from tvmconv.costs.scalable.direct import MOST_VECTORS, segment_registers, segment_step

# Minimum output blocks of a tile, if a layer has them, and maximum, beyond which few vectors are
# left. With fewer, LLVM moves vectors between registers. By estimates 2 by 5 to 7 and 3 by 3
# vectors take 1.16 to 1.38 of the cycles of the FMAs, and 4 or more blocks take no more.
_FEWEST_BLOCKS, _MOST_BLOCKS = 4, 8


class SegmentWinogradModel(WinogradModel):
    """The base class with the parameter ``vectors``, which is 0 for NEON code."""

    def offers(self) -> tuple[Config, ...]:
        """The best scalable and the best NEON code of every tile size."""
        found = []
        for mh, mw in self.tile_sizes:
            configs = list(self._configs(mh, mw))
            for scalable in (False, True):
                form = [c for c in configs if bool(c.int("vectors")) == scalable]
                found += [min(form, key=self.call_cycles)] if form else []
        return tuple(found)

    def _configs(self, mh: int, mw: int) -> Iterator[Config]:
        blocks = self.machine.blocks(self.workload.out_channels)
        seen = set()
        for config in super()._configs(mh, mw):
            yield Config.of(**config, vectors=0)
            place = (config.int("fused"), config.int("rh"), config.int("rw"))
            # integer products use NEON code
            if place in seen or self._multiply.is_packed:
                continue
            seen.add(place)
            fitting = [d for d in divisors(blocks) if d <= _MOST_BLOCKS]
            for kr in [d for d in fitting if d >= _FEWEST_BLOCKS] or fitting:
                for vectors in range(1, MOST_VECTORS + 1):
                    if segment_registers(kr, vectors) <= self.machine.vector_registers:
                        yield Config.of(**{**config, "rt": 1, "kr": kr, "vectors": vectors})

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles on one core of each part of a call, by name."""
        found = super().parts(config)
        if vectors := config.int("vectors"):
            machine, kr = self.machine, config.int("kr")
            tiles = tiling(self.workload, config)
            alive = region_tiles(tiles, config)
            groups = machine.blocks(self.workload.out_channels) // kr
            runs = -(-alive // (vectors * machine.segments)) * (tiles.count // alive)
            steps = summed_products(tiles, machine) * block_channels(self.workload, machine)
            step = segment_step(machine, kr, vectors)
            step *= constants.FEW_BLOCKS if kr < _FEWEST_BLOCKS else 1.0
            stored = cpu_constants.STORE_CYCLES * kr * vectors
            found["arithmetic"] = groups * runs * (steps * step + tiles.products * stored)
            found["arithmetic"] += self.passed_again(config, vectors * machine.segments)
        return found
