"""The cost model of INT8 direct convolution by scalable vectors of four positions in a segment.

A step of the reduction is a dword of one kernel element. It multiplies four accumulators of each
output block by the lanes of each vector of data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from tvmconv.algorithms.integer.padded_rows import GROUP, PaddedRows, rounds_in_tiles
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants as cpu_constants
from tvmconv.costs.cpu.direct import TileModel, pieces
from tvmconv.costs.cpu.microkernel import ROUNDING
from tvmconv.costs.cuts import divisors
from tvmconv.costs.scalable import constants
from tvmconv.machines.record import Machine

MOST_VECTORS = 3
# Output blocks and vectors of default tiles. LLVM unrolls the whole reduction of smaller tiles if
# it is short, and then spills. It also spilled six blocks by one vector.
_DEFAULTS = ((2, 3), (2, 2), (4, 1))
# for a layer of one output block
_LONE = (1, 3)


@dataclass(frozen=True)
class PaddedRowsModel:
    """Costs of tiles of ``oc`` output blocks by some vectors of positions."""

    workload: Conv2dWorkload
    machine: Machine

    @cached_property
    def _tiles(self) -> TileModel:
        return TileModel(self.workload, self.machine)

    @cached_property
    def _rows(self) -> PaddedRows:
        return PaddedRows(self.workload)

    def registers(self, oc: int, vectors: int) -> int:
        """Vector registers of a tile: accumulators, data, and weights in use and being loaded."""
        return GROUP * oc * vectors + vectors + min(oc, 2)

    @property
    def segments(self) -> int:
        """Segments of an image's positions."""
        return self._rows.positions // GROUP

    def best(self) -> tuple[int, int, int]:
        """Output blocks and vectors of the cheapest tile, and segments of a band; 0: all."""
        w = self.workload
        # the output blocks of a tile share the input blocks of their group
        present = self.machine.blocks(w.out_channels // w.groups)
        whole = [tile for tile in _DEFAULTS if w.groups == 1 or present % tile[0] == 0]
        tiles = [tile for tile in whole if tile[0] <= present] or [_LONE]
        oc, vectors = min(tiles, key=lambda tile: self._shared(*tile))
        bands = [0]
        if self.machine.cores > 1:
            bands += divisors(self.segments)[-2::-1]
        return oc, vectors, min(bands, key=lambda band: self._shared(oc, vectors, band))

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of arithmetic, copies, and of waiting for weights and activations."""
        arithmetic = self._shared(*(config.int(name) for name in ("oc", "vectors", "rows")))
        return {
            "arithmetic": arithmetic,
            "packing": (self._copied() + self._finished()) / self.machine.cores,
            "activations": max(0.0, self._tiles.activation_cycles - arithmetic),
            "weights": self._tiles.weight_cycles,
        }

    def _shared(self, oc: int, vectors: int, band: int = 0) -> float:
        """Cycles on the machine's cores, including cores that wait for the last task."""
        band = band or self.segments
        groups = pieces(self._tiles.out_blocks, oc)
        bands = self.workload.batch * (self.segments // band)
        tasks = bands * sum(count for count, _ in groups)
        cycles = bands * sum(count * self._band(size, vectors, band) for count, size in groups)
        return cycles * -(-tasks // self.machine.cores) / tasks

    def _band(self, oc: int, vectors: int, band: int) -> float:
        """Cycles of all tiles of a band and a group of output blocks."""
        machine, sums = self.machine, GROUP * oc * vectors
        rate = machine.rates.multiply_adds * machine.vector.rate
        loads = (oc + vectors) / machine.load_ports
        step = max(sums / rate, machine.fma_latency, loads) + cpu_constants.STEP_CYCLES
        loaded = machine.vector_bytes * oc
        if loaded * self._tiles.steps > machine.l1d_bytes // 2:
            step += cpu_constants.L2_SHOWN * loaded / machine.rates.l2
        rounding = ROUNDING / rate if rounds_in_tiles(self.workload) else 0.0
        ends = cpu_constants.TILE_CYCLES + sums * (cpu_constants.STORE_CYCLES + rounding)
        tiles = -(-band // (vectors * machine.segments))
        return tiles * (self._tiles.steps * step + ends)

    def _copied(self) -> float:
        """Cycles of copying dwords of the image, and of the output if it has been rounded."""
        rows, machine = self._rows, self.machine
        if rows.is_direct:
            return 0.0
        read, written = (prod(s[:-1]) for s in (rows.copy_shape(machine), self._output))
        copied = written / GROUP if rounds_in_tiles(self.workload) else 0
        return constants.COPIED_DWORD * (read + copied)

    def _finished(self) -> float:
        """Cycles of computing the output from accumulators in memory."""
        if rounds_in_tiles(self.workload):
            return 0.0
        vectors = prod(self._output[:-1])
        moved = 2 * vectors * self.machine.vector_bytes / self.machine.rates.l2
        return constants.FINISHED_VECTOR * vectors + moved

    @property
    def _output(self) -> tuple[int, ...]:
        return self._rows.output_shape(self.machine)
