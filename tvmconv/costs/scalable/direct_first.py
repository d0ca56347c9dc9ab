"""The cost model of stems on plain input by scalable vectors: a padded copy, and its products."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from tvmconv.algorithms.direct.padded_image import image_shape
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants as cpu_constants
from tvmconv.costs.cpu.direct import pieces
from tvmconv.costs.scalable import constants
from tvmconv.costs.scalable.direct import gather_cycles, segment_registers
from tvmconv.machines.record import Machine

# output blocks and vectors of tiles
MOST_BLOCKS, MOST_VECTORS = 8, 3


@dataclass(frozen=True)
class StemModel:
    """Costs of tiles of ``oc`` output blocks by some vectors of a row's positions."""

    workload: Conv2dWorkload
    machine: Machine

    @property
    def gathers(self) -> bool:
        """Whether positions of a vector are not neighbors in the copy."""
        return self.workload.stride_w > 1

    def registers(self, oc: int, vectors: int) -> int:
        """Vector registers of a tile; gathered positions share one register of offsets."""
        return segment_registers(oc, vectors) + self.gathers

    def best(self) -> Config:
        """The cheapest tile; among equals the largest."""

        def cost(config: Config) -> tuple[float, int]:
            return sum(self.parts(config).values()), -config.int("oc") * config.int("vectors")

        return min(self._configs(), key=cost)

    def _configs(self) -> Iterator[Config]:
        present = self.machine.blocks(self.workload.out_channels)
        row = ceil(self.workload.out_width / self.machine.segments)
        for oc in range(1, min(present, MOST_BLOCKS) + 1):
            for vectors in range(1, min(row, MOST_VECTORS) + 1):
                if self.registers(oc, vectors) <= self.machine.vector_registers:
                    yield Config.of(oc=oc, tile_h=1, tile_w=1, vectors=vectors)

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of the copy, and of the slower of products and stores."""
        w, machine = self.workload, self.machine
        oc, vectors = config.int("oc"), config.int("vectors")
        present = machine.blocks(w.out_channels)
        tiles = w.out_planes * w.out_height * ceil(w.out_width / (vectors * machine.segments))
        products = 0.0
        for count, blocks in pieces(present, oc):
            products += count * tiles * self._tile_cycles(blocks, vectors)
        tasks = w.out_planes * w.out_height * ceil(present / oc)
        products *= ceil(tasks / machine.cores) / tasks
        stored = 4 * machine.channel_block * w.out_planes * present * w.out_height * w.out_width
        stores = stored / (cpu_constants.STORE_SHARE * machine.rates.behind_l2) / machine.cores
        copied = prod(image_shape(w, machine)[:-1]) / machine.cores
        each = constants.IMAGE_ELEMENTS if w.data_layout == "NHWC" else constants.IMAGE_SQUARES
        return {"arithmetic": max(products, stores), "packing": copied * each}

    def _tile_cycles(self, blocks: int, vectors: int) -> float:
        w, machine = self.workload, self.machine
        channels = min(w.in_channels, machine.lanes)
        taps = w.kernel_d * w.kernel_h * w.kernel_w * ceil(w.in_channels / machine.lanes)
        multiplied = blocks * vectors / (machine.rates.multiply_adds * machine.vector.rate)
        read = gather_cycles(machine) if self.gathers else 1 / machine.load_ports
        loads = channels * blocks / machine.load_ports + read * vectors
        if self.gathers and machine.segments == 1:
            # FMAs do not hide gathers, as in direct convolution
            multiplied += vectors * read / channels
        tap = max(channels * max(multiplied, machine.fma_latency), loads)
        rows = w.kernel_d * w.kernel_h
        return taps * tap + constants.STEM_TILE + constants.STEM_ROW * rows
