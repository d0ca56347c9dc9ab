"""The cost model of products of halves: register tiles, sums around them, and regions in L2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tvmconv.algorithms.strassen import PRODUCTS, Halves
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuts import balanced, divisors
from tvmconv.costs.microkernel import Microkernel, most_pixels
from tvmconv.costs.panel_blocks import PanelBlocks
from tvmconv.costs.register_tile import TileModel
from tvmconv.machines.record import Machine

# most output blocks of a register tile
_MOST_BLOCKS = 6
# vectors that are read, added and written for four of the input, and for four of the output beside
# what direct convolution does; cycles of each over the multiply-adds of a cycle. Estimated on
# Neoverse N1 and Cortex-A72 (docs/strassen.md)
_INPUT_WORK, _OUTPUT_WORK, _WORK_COST = 15, 21, 0.75
# regions that halves are tried for
_MOST_REGIONS = 24


@dataclass(frozen=True)
class StrassenModel:
    """Costs of one workload on one machine, in cycles."""

    workload: Conv2dWorkload
    machine: Machine

    def best(self) -> Config:
        """The config with the fewest predicted cycles."""
        return min(self._configs(), key=lambda config: sum(self.parts(config).values()))

    def _configs(self) -> Iterator[Config]:
        whole = Halves(self.workload, self.machine, 1)
        for kr in divisors(whole.out_blocks):
            if kr > _MOST_BLOCKS or (most := most_pixels(self.machine, kr)) < 1:
                continue
            for regions in range(1, min(_MOST_REGIONS, whole.regions) + 1):
                half = -(-whole.pixels // (2 * regions))
                for rt in {balanced(half, max(1, most - less)) for less in range(3)}:
                    yield Config.of(half=-(-half // rt) * rt, rt=rt, kr=kr)

    @cached_property
    def _tiles(self) -> TileModel:
        return TileModel(self.workload, self.machine)

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of one call on the machine's cores, by part."""
        w, machine = self.workload, self.machine
        half, rt, kr = (config.int(name) for name in ("half", "rt", "kr"))
        cut = Halves(w, machine, half)
        lanes, rates = machine.channel_block, machine.rates
        quads = w.batch * cut.regions * half
        tile = Microkernel(machine, rt, kr).cycles(cut.depth * lanes)
        products = PRODUCTS * (cut.out_blocks // kr) * (quads // rt) * tile
        work = quads * (cut.depth * _INPUT_WORK + cut.out_blocks * _OUTPUT_WORK)
        sums = work * _WORK_COST * 2 / rates.multiply_adds
        weights = 4 * PRODUCTS * cut.depth * cut.out_blocks * lanes**2
        blocks = PanelBlocks(
            machine,
            panels=cut.regions * half // rt,
            panel_bytes=4 * PRODUCTS * lanes * rt * cut.depth,
            groups=cut.out_blocks // kr,
            weight_bytes=weights,
            block=half // rt,
            beside=4 * PRODUCTS * lanes * half * kr,
        )
        tasks = w.batch * cut.regions
        cycle = -(-tasks // machine.cores) / tasks
        late = max(0.0, self._tiles.activation_cycles - (products + sums) * cycle)
        return {
            "arithmetic": products * cycle,
            "transforms": sums * cycle,
            "activations": late + w.batch * blocks.panel_cycles * cycle,
            "weights": weights / rates.memory / machine.cores
            + w.batch * blocks.weight_cycles * cycle,
        }


def _halves(w: Conv2dWorkload, machine: Machine) -> list[int]:
    """Pairs of pixels of a region, for every number of regions and register tile."""
    if machine.blocks(w.out_channels) < 2:
        return [1]
    pixels = Halves(w, machine, 1).pixels
    found = set()
    for regions in range(1, min(_MOST_REGIONS, -(-pixels // 2)) + 1):
        half = -(-pixels // (2 * regions))
        found |= {-(-half // rt) * rt for rt in range(1, min(half, machine.vector_registers) + 1)}
    return sorted(found)


KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("half", "pairs of pixels of a region", _halves),
        Knob(
            "rt",
            "pairs of pixels of a register tile, a divisor of a region's",
            lambda w, machine: range(1, machine.vector_registers),
        ),
        Knob(
            "kr",
            "output blocks of a register tile, a divisor of those of half the outputs",
            lambda w, machine: (
                d
                for d in divisors(max(1, machine.blocks(w.out_channels) // 2))
                if d <= _MOST_BLOCKS
            ),
        ),
    )
)
