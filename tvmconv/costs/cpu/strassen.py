"""The cost model of Strassen: register tiles, sums around them, and regions in L2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tvmconv.algorithms.gemm.strassen import StrassenSplit
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.microkernel import Microkernel, most_pixels
from tvmconv.costs.cpu.panel_blocks import PanelBlocks
from tvmconv.costs.cpu.partition import output_bytes
from tvmconv.costs.cuts import balanced, divisors
from tvmconv.machines.record import Machine

# maximum output blocks of a register tile
_MOST_BLOCKS = 6
# Vectors that are read, added and written for one place in all parts of the input, and of the
# output. There are 4 parts, or 16 with two levels. Work of direct convolution is not counted.
_WORK = {1: (15, 21), 2: (109, 100)}
# numbers of regions that are compared
_MOST_REGIONS = 24


@dataclass(frozen=True)
class StrassenModel:
    """Costs of one workload on one machine, in cycles."""

    workload: Conv2dWorkload
    machine: Machine

    def best(self) -> Config:
        """The config with the fewest predicted cycles."""
        return min(self.offers(), key=self._cycles)

    def offers(self) -> tuple[Config, ...]:
        """The best config of each number of levels."""
        levels = level_counts(self.workload, self.machine)
        return tuple(min(self._configs(level), key=self._cycles) for level in levels)

    def _cycles(self, config: Config) -> float:
        return sum(self.parts(config).values())

    def _configs(self, levels: int) -> Iterator[Config]:
        whole = StrassenSplit(self.workload, self.machine, 1, levels)
        for kr in divisors(whole.out_blocks):
            if kr > _MOST_BLOCKS or (most := most_pixels(self.machine, kr)) < 1:
                continue
            for regions in range(1, min(_MOST_REGIONS, whole.regions) + 1):
                half = -(-whole.pixels // (whole.ways * regions))
                # tiles that divide a part leave no pixels over: 25 pixels are five tiles of 5
                for rt in {balanced(half, size) for size in range((most + 1) // 2, most + 1)}:
                    yield Config.of(levels=levels, half=-(-half // rt) * rt, rt=rt, kr=kr)

    @cached_property
    def _tiles(self) -> TileModel:
        return TileModel(self.workload, self.machine)

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of one call on the machine's cores, by part."""
        w, machine = self.workload, self.machine
        half, rt, kr = (config.int(name) for name in ("half", "rt", "kr"))
        cut = StrassenSplit.of(w, machine, config)
        lanes, rates = machine.channel_block, machine.rates
        places = w.batch * cut.regions * half
        tile = Microkernel(machine, rt, kr).cycles(cut.depth * lanes)
        products = cut.products * (cut.out_blocks // kr) * (places // rt) * tile
        for_input, for_output = _WORK[cut.levels]
        work = places * (cut.depth * for_input + cut.out_blocks * for_output)
        by_lane = machine.code.by_lane
        each = constants.STRASSEN_WORK if by_lane else constants.STRASSEN_IMAGE_WORK
        sums = work * each * 2 / rates.multiply_adds
        tasks = w.batch * cut.regions
        share = -(-tasks // machine.cores)
        arithmetic, transforms = products * share / tasks, sums * share / tasks
        if by_lane:
            activations, weights = self._on_demand(config, arithmetic + transforms, share / tasks)
        else:
            activations, weights = self._streams(config, arithmetic, share)
        return {
            "arithmetic": arithmetic,
            "transforms": transforms,
            "activations": activations,
            "weights": weights,
        }

    def _on_demand(self, config: Config, computed: float, cycle: float) -> tuple[float, float]:
        """Waiting for activations and for weights of code that prefetches nothing."""
        w, machine = self.workload, self.machine
        half, rt, kr = (config.int(name) for name in ("half", "rt", "kr"))
        cut, lanes = StrassenSplit.of(w, machine, config), machine.channel_block
        weights = self._weight_bytes(cut)
        blocks = PanelBlocks(
            machine,
            panels=cut.regions * half // rt,
            panel_bytes=4 * cut.products * lanes * rt * cut.depth,
            groups=cut.out_blocks // kr,
            weight_bytes=weights,
            block=half // rt,
            others=4 * cut.products * lanes * half * kr,
        )
        late = max(0.0, self._tiles.activation_cycles - computed)
        return (
            late + w.batch * blocks.panel_cycles * cycle,
            weights / machine.rates.memory / machine.cores + w.batch * blocks.weight_cycles * cycle,
        )

    def _streams(self, config: Config, arithmetic: float, share: int) -> tuple[float, float]:
        """Waiting for activations and for weights, of which the next panel is prefetched.

        Input is read and results are written while no FMAs run.
        """
        w, machine, rates = self.workload, self.machine, self.machine.rates
        half, kr = config.int("half"), config.int("kr")
        cut = StrassenSplit.of(w, machine, config)
        moved = w.batch * w.in_depth * self._tiles.input_bytes + output_bytes(w, machine)
        rate = rates.l2 if moved <= machine.l2_bytes else rates.behind_l2
        region = 4 * cut.products * machine.channel_block * half * (cut.depth + kr)
        near = constants.STRASSEN_FAR * machine.last_cache_bytes
        far = rates.behind_l2 if region <= near else rates.memory
        beyond = max(0, region - machine.l2_bytes)
        again = share * (cut.out_blocks // kr) * beyond
        weights = self._weight_bytes(cut)
        first = weights / rates.memory
        shown = max(constants.STRASSEN_READ, constants.STRASSEN_FIRST * config.int("rt") / half)
        late = max(shown * first, first - arithmetic)
        if weights > machine.l2_bytes:
            late += constants.STRASSEN_AGAIN * (share - 1) * weights / rates.behind_l2
        return (
            constants.STRASSEN_MOVED * moved * share / (w.batch * cut.regions) / rate
            + constants.STRASSEN_SUMS * again / far,
            late,
        )

    def _weight_bytes(self, cut: StrassenSplit) -> int:
        return 4 * cut.products * cut.depth * cut.out_blocks * self.machine.channel_block**2


def level_counts(w: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """Levels that a workload's channel blocks allow."""
    counts = [machine.blocks(n) for n in (w.in_channels, w.out_channels)]
    return (1,) if any(count % 4 for count in counts) else (1, 2)


def _part_sizes(w: Conv2dWorkload, machine: Machine) -> list[int]:
    """Pixels of a part of a region, for every number of regions and register tile."""
    if machine.blocks(w.out_channels) < 2:
        return [1]
    found = set()
    for levels in level_counts(w, machine):
        cut = StrassenSplit(w, machine, 1, levels)
        for regions in range(1, min(_MOST_REGIONS, cut.regions) + 1):
            half = -(-cut.pixels // (cut.ways * regions))
            most = min(half, machine.vector_registers)
            found |= {-(-half // rt) * rt for rt in range(1, most + 1)}
    return sorted(found)


KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob(
            "levels",
            "1: seven products of parts; 2: parts are cut again, for 49 products",
            level_counts,
            neutral=1,
        ),
        Knob("half", "pixels of each part, of 2 or 4, of a region", _part_sizes),
        Knob(
            "rt",
            "pixels of a register tile, a divisor of a part's",
            lambda w, machine: range(1, machine.vector_registers),
        ),
        Knob(
            "kr",
            "output blocks of a register tile, a divisor of the blocks of a part of the outputs",
            lambda w, machine: (
                d
                for d in divisors(max(1, machine.blocks(w.out_channels) // 2))
                if d <= _MOST_BLOCKS
            ),
        ),
    )
)
