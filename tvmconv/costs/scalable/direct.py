"""The cost model of direct convolution by scalable vectors: a segment of 128 bits for each pixel.

It is like :class:`~tvmconv.costs.cpu.microkernel.Microkernel`, for tiles of whole vectors of the
machine's length.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tvmconv.algorithms.direct.direct import flattened, joined, strided
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants as cpu_constants
from tvmconv.costs.cpu.direct import TileModel, pieces
from tvmconv.costs.cuts import divisors
from tvmconv.costs.scalable import constants
from tvmconv.machines.record import Machine

# Instructions accept a lane from the first eight registers only. With several taps in a row, LLVM
# also loads the next tap's pixels.
MOST_VECTORS, _MOST_WITH_TAPS = 7, 4
# Minimum and maximum blocks, and maximum vectors, of default tiles. The keys are whether a row has
# several taps, and whether pixels are gathered. LLVM spilled some other tiles for some cores.
_DEFAULTS = {
    (True, False): (8, 8, 3),
    (False, False): (4, 8, 5),
    (True, True): (8, 8, 2),
    (False, True): (4, 8, 2),
}
# the same for several taps with gathered pixels, if LLVM loads weights far ahead
_AHEAD = (4, 4, 2)
# registers in addition to accumulators and pixels: one of weights in use, and one being loaded
_WEIGHTS = 2


def segment_registers(blocks: int, vectors: int) -> int:
    """Registers of a tile of output blocks by vectors of pixels."""
    return blocks * vectors + vectors + _WEIGHTS


def gather_cycles(machine: Machine) -> float:
    """Cycles of a load of one vector of gathered pixels, two elements of each."""
    return max(1.0, constants.GATHER_CYCLES * machine.segments)


def segment_step(machine: Machine, blocks: int, vectors: int, gathers: bool = False) -> float:
    """Cycles of one step of the reduction of such a tile: a channel of one tap."""
    multiplied = blocks * vectors / (machine.rates.multiply_adds * machine.vector.rate)
    each = gather_cycles(machine) if gathers else 1 / machine.load_ports
    if gathers and machine.segments == 1:
        # FMAs do not hide gathers, by estimates for Neoverse N2 and V2
        multiplied += vectors * each / machine.channel_block
    loads = blocks / machine.load_ports + each * vectors / machine.channel_block
    step = max(multiplied, machine.fma_latency, loads)
    return step + cpu_constants.STEP_CYCLES / machine.channel_block


@dataclass(frozen=True)
class SegmentModel:
    """Costs of tiles of ``oc`` output blocks by some vectors of pixels."""

    workload: Conv2dWorkload
    machine: Machine

    @cached_property
    def _tiles(self) -> TileModel:
        return TileModel(self.workload, self.machine)

    @cached_property
    def rows(self) -> int:
        """Runs of neighboring pixels in an image: one, or its rows."""
        w = self.workload
        one = flattened(w) != w or joined(w, Config.of(vectors=1))
        return 1 if one else w.out_height

    @cached_property
    def run(self) -> int:
        """Pixels of a run."""
        return self.workload.out_height * self.workload.out_width // self.rows

    @property
    def gathers(self) -> bool:
        """Whether pixels of a vector are not neighbors."""
        return strided(self.workload)

    @property
    def most_vectors(self) -> int:
        """Maximum vectors of pixels of a tile."""
        return _MOST_WITH_TAPS if self.workload.kernel_w > 1 else MOST_VECTORS

    def registers(self, oc: int, vectors: int) -> int:
        """Vector registers of a tile; gathered pixels need one of offsets for each vector."""
        return segment_registers(oc, vectors) + self.gathers * vectors

    def cycles(self, oc: int, vectors: int, band: int = 0) -> float:
        """Cycles of the whole layer on one core with its data in the caches."""
        w, machine = self.workload, self.machine
        rows = w.out_height // (band or w.out_height) if self.rows == 1 else self.rows
        run = w.out_height * w.out_width // rows
        tiles = -(-run // (vectors * machine.segments))
        total = 0.0
        for count, blocks in pieces(self._tiles.out_blocks, oc):
            total += count * self._tile_cycles(blocks, vectors)
        return w.out_planes * rows * tiles * total

    def _tile_cycles(self, oc: int, vectors: int) -> float:
        machine, steps = self.machine, self._tiles.steps
        step = segment_step(machine, oc, vectors, self.gathers)
        loaded = machine.vector_bytes * oc
        if loaded * steps > machine.l1d_bytes // 2:
            step += cpu_constants.L2_SHOWN * loaded / machine.rates.l2
        spent = steps * step
        return spent + cpu_constants.TILE_CYCLES + cpu_constants.STORE_CYCLES * oc * vectors

    def tiles(self) -> list[tuple[int, int]]:
        """Every tile within the registers that a default may use."""
        most = min(self.most_vectors, -(-self.run // self.machine.segments))
        return [
            (oc, vectors)
            for oc in range(1, min(self._tiles.out_blocks, 8) + 1)
            for vectors in range(1, most + 1)
            if self.registers(oc, vectors) <= self.machine.vector_registers
        ]

    def best(self) -> tuple[int, int, int]:
        """Output blocks and vectors of the cheapest tile, and rows of a band; 0: all."""

        def cost(tile: tuple[int, int]) -> tuple[float, int]:
            return self.cycles(*tile), -tile[0] * tile[1]

        form = (self.workload.kernel_w > 1, self.gathers)
        ahead = all(form) and self.machine.code.loads_ahead
        fewest, largest, widest = _AHEAD if ahead else _DEFAULTS[form]
        most = max(oc for oc, _ in self.tiles())
        tiles = [
            (oc, vectors)
            for oc, vectors in self.tiles()
            if min(fewest, most) <= oc <= largest and vectors <= widest
        ]
        oc, vectors = min(tiles, key=cost)
        bands = [0]
        if self.rows == 1 and self.machine.cores > 1:
            bands += divisors(self.workload.out_height)[-2::-1]
        return oc, vectors, min(bands, key=lambda band: self._shared(oc, vectors, band))

    def _shared(self, oc: int, vectors: int, band: int) -> float:
        """Cycles on the machine's cores, including cores that wait for the last task."""
        w = self.workload
        parts = w.out_height // (band or w.out_height) if self.rows == 1 else w.out_height
        tasks = w.out_planes * -(-self._tiles.out_blocks // oc) * parts
        return self.cycles(oc, vectors, band) * -(-tasks // self.machine.cores) / tasks

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of arithmetic, of waiting for weights, and additional ones for activations."""
        oc, vectors, rows = (config.int(name) for name in ("oc", "vectors", "rows"))
        arithmetic = self._shared(oc, vectors, rows)
        return {
            "arithmetic": arithmetic,
            "activations": max(0.0, self._tiles.activation_cycles - arithmetic),
            "weights": self._tiles.weight_cycles,
        }
