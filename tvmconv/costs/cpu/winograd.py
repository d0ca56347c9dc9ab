"""The cost model of Winograd convolution: output tiles, regions in L2, register tiles.

A step of the products costs as much as in any :class:`~tvmconv.costs.cpu.microkernel.Microkernel`.
But the register tile has to divide a region's tiles. The blocks in L2 are regions that pass through
all three stages, not panels of one matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tvmconv.algorithms.winograd.integers import exact_below, worst_sum
from tvmconv.algorithms.winograd.polyphase import phases
from tvmconv.algorithms.winograd.tiles import (
    Tiling,
    block_channels,
    by_strips,
    is_representable,
    most_products,
    region_tiles,
    summed_blocks,
    summed_products,
    tiling,
    transformed_multiply,
    workspace_planes,
)
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu import winograd_traffic as traffic
from tvmconv.costs.cpu.microkernel import ROUNDING, Microkernel
from tvmconv.costs.cpu.partition import memory_rate
from tvmconv.costs.cpu.tile_knobs import flag
from tvmconv.costs.cuts import divisors
from tvmconv.costs.winograd_transforms import input_arithmetic, output_arithmetic
from tvmconv.machines.multiply import Multiply, steps_a_cycle
from tvmconv.machines.record import Machine

# minimum tiles of a region if the weights of a panel come from L2
_FEWEST_TILES = 8
# values of an axis at which the sums of a whole row exceed the registers; strips stay below
_LONG = 7
# maximum output blocks of a register tile, and a number that is compared though it does not divide
_MOST_BLOCKS, _UNEVEN = 4, 3


@dataclass(frozen=True)
class WinogradModel:
    """Costs of one workload on one machine, in cycles of one core."""

    workload: Conv2dWorkload
    machine: Machine

    def registers(self, rt: int, kr: int) -> int:
        """Vector registers of a register tile.

        Unlike in :class:`Microkernel`, broadcasts may be folded into FMAs. The registers that they
        need are a property of the family. By lane, floating-point types have the same number.
        Products that a separate instruction adds need one more.
        """
        code = self.machine.code
        if code.by_lane and not self._multiply.is_packed:
            return Microkernel(self.machine, rt, kr).block_registers(rt)
        spare = code.spare_registers + self._multiply.steps - 1
        return rt * kr + kr + spare + (rt if code.by_lane else 0) + code.loads_ahead

    @property
    def _multiply(self) -> Multiply:
        """The instruction that multiplies transformed values."""
        return transformed_multiply(self.workload, self.machine)

    def _steps(self, rt: int, kr: int) -> tuple[int, float]:
        """Steps of a register tile over one channel block, and cycles of one."""
        machine, multiply = self.machine, self._multiply
        channels = block_channels(self.workload, machine)
        if not multiply.is_packed:
            return channels, Microkernel(machine, rt, kr).step_cycles(constants.FOLDED_SHARE)
        # if a separate instruction adds products, only additions wait for each other
        latency = machine.fma_latency if multiply.steps == 1 else 1
        blocked = machine.code.loads_block / 2 * (kr + rt / machine.lanes)
        multiplied = rt * kr / steps_a_cycle(multiply, machine) + blocked
        step = max(multiplied, latency, machine.load_cycles(kr, rt))
        return channels // multiply.width, step

    @cached_property
    def tile_sizes(self) -> tuple[tuple[int, int], ...]:
        """Tiles with distinct numbers of tiles: larger tiles that save nothing are omitted."""
        w = self.workload
        tall, wide = (axis.taps for axis in phases(w))
        heights = _useful(w.out_height, tall, most_products(w))
        widths = _useful(w.out_width, wide, most_products(w))
        sizes = [(h, x) for h in heights for x in widths if abs(h - x) <= 2 or 1 in (h, x)]
        return tuple(size for size in sizes if is_representable(Tiling(w, *size)))

    def check_tile(self, config: Config) -> None:
        """Raise :class:`ConfigError` for a tile outside the known points."""
        w = self.workload
        for name, axis in zip(("mh", "mw"), phases(w), strict=True):
            size, most = config.int(name), most_products(w) - axis.taps + 1
            if not 1 <= size <= most:
                raise ConfigError(
                    f"{name}={size} of {w} is out of range. Expected 1 to {most}. Change {name}."
                )
        if not is_representable(tiles := tiling(w, config)):
            raise ConfigError(
                f"transformed values of F({tiles.mh}x{tiles.mw}) of {w} exceed 16 bits. Expected "
                "values of 16 bits. Use a smaller tile."
            )

    def offers(self) -> tuple[Config, ...]:
        """The best config of every tile size."""
        return tuple(min(self._configs(mh, mw), key=self.call_cycles) for mh, mw in self.tile_sizes)

    def best(self) -> Config:
        """The config with the fewest predicted cycles; an exact one for integers, if any."""
        offers = self.offers()
        if self.workload.types.is_integer:
            worst = worst_sum(self.workload)
            exact = [c for c in offers if exact_below(*tiling(self.workload, c).integer) > worst]
            offers = tuple(exact) or offers
        return min(offers, key=self.call_cycles)

    def _configs(self, mh: int, mw: int) -> Iterator[Config]:
        tiles = Tiling(self.workload, mh, mw)
        blocks = self.machine.blocks(self.workload.out_channels)
        regions = [(1, rh, tiles.columns) for rh in divisors(tiles.rows)]
        fewest = 1 if self._counts_bytes else _FEWEST_TILES
        regions += [(1, 1, rw) for rw in divisors(tiles.columns)[:-1] if rw >= fewest]
        for fused, rh, rw in [*regions, (0, 1, tiles.columns)]:
            count = rh * rw if fused else tiles.count
            for kr in self._widths(blocks):
                free = self.machine.vector_registers - self.registers(0, kr)
                limit = free // (self.registers(1, kr) - self.registers(0, kr))
                fitting = [d for d in divisors(count) if d <= limit]
                for rt in fitting[-2:]:
                    yield Config.of(mh=mh, mw=mw, fused=fused, rh=rh, rw=rw, rt=rt, kr=kr)

    def _widths(self, blocks: int) -> list[int]:
        """Output blocks of a register tile that are worth comparing, out of so many.

        By lane, floating-point types also have three: 3 by 7 tiles hide more latency than 2 by 7.
        """
        found = [d for d in divisors(blocks) if d <= _MOST_BLOCKS]
        if self.machine.code.by_lane and not self._multiply.is_packed and blocks > _UNEVEN:
            found = sorted({*found, _UNEVEN})
        return found

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles on one core of each part of a call, by name."""
        w, machine, tiles = self.workload, self.machine, tiling(self.workload, config)
        rt, kr = config.int("rt"), config.int("kr")
        in_blocks, out_blocks = summed_blocks(w, machine), machine.blocks(w.out_channels)
        alive = region_tiles(tiles, config)
        regions = tiles.count // alive
        each, step = self._steps(rt, kr)
        if out_blocks % kr:
            rest = self._steps(rt, out_blocks % kr)[1]
            step = (out_blocks // kr * step + rest) / -(-out_blocks // kr)
        panels = -(-out_blocks // kr) * (tiles.count // rt)
        summed = summed_products(tiles, machine)
        steps = summed * panels * each
        cost, code = float(constants.PRODUCT_COST), machine.code
        multiplied = steps * step * cost
        late = self.passed_again(config, rt)
        if not (self._counts_bytes or self._keeps_panel(kr)):
            late += constants.PANEL_SHOWN * steps * kr * machine.vector_bytes / machine.rates.l2
        computed = multiplied + tiles.products * panels * constants.PRODUCT_STORE
        tall, wide = tiles.vertical.n, tiles.horizontal.n
        work_in = input_arithmetic(tiles) + 2 * tiles.products
        if by_strips(w, machine):
            # neighboring tiles share columns, which are stored and read once more
            shared = tall * (tiles.mw - wide) * tall * constants.SHARED_TERMS
            work_in += shared + 2 * tall * tiles.mw
        work_out = output_arithmetic(tiles) + tiles.products
        if w.types.is_requantised:
            work_out += ROUNDING * tiles.mh * tiles.mw
        long = (tall >= _LONG) + (wide >= _LONG)
        transforms = tiles.count * (in_blocks * work_in + out_blocks * work_out)
        if by_strips(w, machine):
            transforms *= constants.TRANSFORM_COST / machine.rates.multiply_adds
        else:
            row = constants.LONG_TRANSFORM_COST * code.long_transform * long
            transforms *= constants.TRANSFORM_COST * code.transform + row
        weights = traffic.weight_bytes(w, machine, tiles)
        scratch = traffic.scratch_bytes(w, machine, tiles) * alive
        read, written = traffic.image_bytes(w, machine)
        image = read + 2 * written
        stream, again = weights / (constants.MEMORY_SHARE * memory_rate(machine)), 0.0
        if weights + scratch > constants.REGION_L2 * machine.l2_bytes:
            again = (regions - 1) * weights / self._rate(weights + scratch)
        spilled = max(0.0, scratch - constants.SCRATCH_L2 * machine.l2_bytes)
        spill = regions * spilled * (1 + constants.WRITE_COST) / self._rate(weights + scratch)
        spill *= code.spilled
        passed = w.out_planes * image / self._l3_rate if image > machine.l2_bytes // 2 else 0.0
        shown = constants.SCRATCH_SHOWN * (spill + passed) + transforms
        again *= constants.AGAIN_SHOWN
        # Only the first region's work can hide the arrival of weights; later regions find them.
        # FMAs that wait for L2 hide nothing: small register tiles took 1.1 to 1.6 times as long.
        hidden = (computed + shown) / regions
        waited = max(constants.STREAM_SHOWN * code.streamed * stream, stream - hidden)
        if alive == rt and not code.by_lane:
            waited += regions * traffic.gap_cycles(w, machine, tiles, kr)
        return {
            "arithmetic": computed + late,
            "transforms": transforms,
            "weights": waited + again,
            "activations": constants.SCRATCH_SHOWN * passed,
            "workspace": constants.SCRATCH_SHOWN * spill,
            "call": constants.WINOGRAD_CALL * (1 if config.int("fused") else 3),
        }

    @property
    def _counts_bytes(self) -> bool:
        """Whether weights cost their bytes each time that they pass L1.

        Vectors of four elements are few bytes for many FMAs. The fitted share of wide vectors
        would overestimate their cost up to eight times.
        """
        return self.machine.code.by_lane and not self._multiply.is_packed

    def _keeps_panel(self, kr: int) -> bool:
        """Whether L1 keeps the weights of a register tile for the next tiles."""
        w, machine = self.workload, self.machine
        (blocks, size), _ = workspace_planes(w, machine)
        return size * machine.channel_block**2 * kr * blocks <= machine.l1d_bytes // 2

    def passed_again(self, config: Config, together: int) -> float:
        """Cycles that FMAs wait for weights from L2, except for the first time.

        L1 keeps the weights of a register tile for at most a region. A register tile multiplies
        ``together`` tiles.
        """
        if not self._counts_bytes:
            return 0.0
        w, machine, tiles = self.workload, self.machine, tiling(self.workload, config)
        alive = region_tiles(tiles, config)
        passes = tiles.count // alive
        if not self._keeps_panel(config.int("kr")):
            passes *= -(-alive // together)
        vectors = summed_products(tiles, machine) * machine.blocks(w.out_channels)
        weights = vectors * machine.channel_block * machine.vector_bytes
        return constants.L2_SHOWN * (passes - 1) * weights / machine.rates.l2

    def _rate(self, working_set: float) -> float:
        """Bytes per cycle of a stream from beyond L2."""
        near, far = self._l3_rate, constants.MEMORY_SHARE * self.machine.rates.memory
        if not self.machine.l3_bytes:
            return far
        share = self.machine.l3_bytes / 4
        beyond = min(max((working_set - share) / share, 0.0), 1.0)
        return near + (far - near) * beyond

    @property
    def _l3_rate(self) -> float:
        """Bytes per cycle from the next level after L2."""
        rates = self.machine.rates
        return constants.L3_SHARE * rates.l3 if rates.l3 else constants.MEMORY_SHARE * rates.memory

    def shares(self, config: Config) -> dict[str, float]:
        """Cycles of each part of a call on the machine's cores, including idle cores."""
        parts, cores = self.parts(config), self.machine.cores
        fixed = parts.pop("call") / (1 if cores > 1 else 4)
        tiles = tiling(self.workload, config)
        tasks = tiles.count // region_tiles(tiles, config)
        if not config.int("fused"):
            tasks = tiles.products * self.machine.blocks(self.workload.out_channels)
        idle = -(-tasks // cores) * cores / tasks
        found = {name: value * idle / cores for name, value in parts.items()}
        fused = bool(config.int("fused"))
        if not fused and cores > 1:
            most = traffic.busiest_share(self.machine, tiles, config)
            found["arithmetic"] = parts["arithmetic"] * most / cores
        shared = traffic.of_threads(self.workload, self.machine, tiles, tasks, fused=fused)
        found["weights"] += shared.pop("weights")
        return found | {"call": fixed} | shared

    def call_cycles(self, config: Config) -> float:
        """Cycles of one call on the machine's cores."""
        return sum(self.shares(config).values())


def _useful(extent: int, kernel: int, most: int) -> list[int]:
    """Tile sizes for one axis, from 2, each covering the axis in fewer tiles than the last."""
    if kernel == 1:
        return [1]
    sizes: list[int] = []
    for size in range(2, most - kernel + 2):
        if not sizes or -(-extent // size) < -(-extent // sizes[-1]):
            sizes.append(size)
    return sizes or [1]


def _sizes(w: Conv2dWorkload, machine: Machine, axis: int) -> list[int]:
    """Heights (axis 0) or widths (axis 1) of useful tiles."""
    return sorted({size[axis] for size in WinogradModel(w, machine).tile_sizes})


def _region_sizes(w: Conv2dWorkload, machine: Machine, axis: int) -> list[int]:
    """Divisors of the rows or columns of tiles that useful tiles give."""
    tilings = [Tiling(w, *size) for size in WinogradModel(w, machine).tile_sizes]
    counts = {(tiles.rows, tiles.columns)[axis] for tiles in tilings}
    return sorted({d for count in counts for d in divisors(count)})


KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("mh", "rows of an output tile", lambda w, machine: _sizes(w, machine, 0)),
        Knob("mw", "columns of an output tile", lambda w, machine: _sizes(w, machine, 1)),
        flag("fused", "1: a region of tiles goes through all stages; 0: stage by stage"),
        Knob(
            "rh",
            "rows of tiles of a region, a divisor of their number",
            lambda w, machine: _region_sizes(w, machine, 0),
            neutral=1,
        ),
        Knob(
            "rw",
            "columns of tiles of a region, a divisor; all if the region has several rows",
            lambda w, machine: _region_sizes(w, machine, 1),
            neutral=1,
        ),
        Knob(
            "rt",
            "tiles of a register tile, a divisor of a region's",
            lambda w, machine: range(1, machine.vector_registers),
        ),
        Knob(
            "kr",
            "output blocks of a register tile; the last tile may have fewer",
            lambda w, machine: range(1, min(machine.blocks(w.out_channels), _MOST_BLOCKS) + 1),
        ),
    )
)
