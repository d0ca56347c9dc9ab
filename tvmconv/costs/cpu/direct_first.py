"""The cost models of first layers: FP32, and INT8 by register tiles of dwords of pixels.

Tiles of CPUs whose FMAs multiply by a lane are in :mod:`tvmconv.costs.cpu.direct_first_lanes`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.algorithms.integer.row_dwords import dwords_of_row, rows_bytes
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct_first_lanes import LaneTiles
from tvmconv.costs.cpu.microkernel import Microkernel
from tvmconv.costs.cpu.partition import (
    Partition,
    band_tiles,
    best,
    crossing_cycles,
    output_bytes,
    spans,
)
from tvmconv.costs.parts import slowest
from tvmconv.machines.multiply import steps_a_cycle
from tvmconv.machines.record import Machine

# output blocks of a tile
_BLOCKS = (1, 2, 3, 4)


@dataclass(frozen=True)
class DwordTiles:
    """Costs of tiles of ``oc`` output blocks and some pixels, for a first layer of integers."""

    workload: Conv2dWorkload
    machine: Machine

    def registers(self, oc: int, pixels: int) -> int:
        """Vector registers of a tile; a product that another instruction adds needs one more."""
        product = int(multiply_of(self.workload, self.machine).steps > 1 and oc > 1)
        return Microkernel(self.machine, pixels, oc).registers + product

    def best(self) -> Config:
        """The cheapest tile of one row; among equals the tile with more blocks."""
        w = self.workload
        # LLVM unrolls the channels and needs another register if products have one: full register
        # files were spilled (5 % of a 7x7 layer)
        limit = self.machine.vector_registers - int(multiply_of(w, self.machine).steps > 1)
        bands = -(-2 * self.machine.cores // w.out_planes) if self.machine.cores > 1 else 1
        configs = [
            Config.of(oc=oc, tile_h=1, tile_w=columns, bands=min(bands, w.out_height))
            for oc in _BLOCKS
            for columns in range(1, min(w.out_width, limit) + 1)
            if oc <= self.machine.blocks(w.out_channels) and self.registers(oc, columns) <= limit
        ]
        return min(configs, key=lambda c: (self.call_cycles(c), -c.int("oc")))

    def call_cycles(self, config: Config) -> float:
        """Cycles of one call: the copy, the tiles, and the delay by stores of the output."""
        w, machine = self.workload, self.machine
        oc, tile_h, tile_w = (config.int(name) for name in ("oc", "tile_h", "tile_w"))
        blocks = machine.blocks(w.out_channels)
        steps = dwords_of_row(w, machine) * w.weight_shape[2] * w.in_channels
        multiply = multiply_of(w, machine)
        # for 16-bit integers, only the tiles that this higher rate selects were measured
        is_single = multiply.steps == 1
        rate = steps_a_cycle(multiply, machine, oc) if is_single else float(multiply.steps)
        rows = -(-w.out_height // tile_h)
        tiles = [(-(-w.out_width // tile_w) - 1, tile_w), (1, (w.out_width - 1) % tile_w + 1)]
        cycles = 0.0
        for groups, size in ((blocks // oc, oc), (int(blocks % oc > 0), blocks % oc)):
            for count, columns in tiles:
                if groups and count:
                    tile = Microkernel(machine, tile_h * columns, size, rate)
                    cycles += groups * rows * count * tile.cycles(steps)
        stored = itemsize(w.types.output) * machine.channel_block * blocks
        moved = stored * w.out_height * w.out_width / machine.rates.behind_l2
        copied = 2 * rows_bytes(w, machine) / machine.rates.l2
        return (w.out_planes * max(cycles, moved) + copied) / machine.cores


def call_parts(workload: Conv2dWorkload, machine: Machine, config: Config) -> dict[str, float]:
    """The slower of FMAs and stores; loads limit tiles of one output block."""
    oc, tile_h, tile_w, bands = (config.int(k) for k in ("oc", "tile_h", "tile_w", "bands"))
    span = band_tiles(workload.out_height, tile_h, bands)
    partition = partition_of(workload, machine, oc, tile_h, span)
    crossing = partition.crossing(*activation_bytes(workload, machine))
    found = {"crossing": crossing_cycles(machine, crossing)}
    if multiply_of(workload, machine).is_packed:
        return {"arithmetic": DwordTiles(workload, machine).call_cycles(config), **found}
    cycles = tile_parts(workload, machine, oc, tile_h, tile_w)
    return {name: part * partition.share for name, part in cycles.items()} | found


def tile_parts(
    workload: Conv2dWorkload, machine: Machine, oc: int, tile_h: int, tile_w: int
) -> dict[str, float]:
    """The slower of FMAs and stores on one core, for FP32 tiles of ``oc`` blocks and pixels."""
    vectors = workload.out_planes * machine.blocks(workload.out_channels)
    vectors *= workload.out_height * workload.out_width
    if machine.code.by_lane:
        arithmetic = LaneTiles(workload, machine).cycles(oc, tile_h, tile_w)
    else:
        step = Microkernel(machine, tile_h * tile_w, oc).step_cycles()
        arithmetic = vectors * workload.taps * step / (oc * tile_h * tile_w)
    store = 4 * machine.channel_block / (constants.STORE_SHARE * machine.rates.behind_l2)
    return slowest(arithmetic=arithmetic, memory=vectors * store)


def partition_of(
    workload: Conv2dWorkload, machine: Machine, oc: int, tile_h: int, span: int
) -> Partition:
    """How threads share tiles of ``oc`` blocks and so many rows, in bands of ``span`` tiles."""
    tiles, groups = (
        -(-workload.out_height // tile_h),
        -(-machine.blocks(workload.out_channels) // oc),
    )
    return Partition(machine, workload.out_planes, tiles, groups, span)


def activation_bytes(workload: Conv2dWorkload, machine: Machine) -> tuple[int, int]:
    """Bytes of the plain input, and of the output with whole channel blocks."""
    w = workload
    read = itemsize(w.types.data) * w.batch * w.in_channels * w.in_depth * w.in_height * w.in_width
    return read, output_bytes(w, machine)


def bands_of(
    workload: Conv2dWorkload, machine: Machine, oc: int, tile_h: int, tile_w: int = 1
) -> int:
    """Bands of rows that threads share, for FP32 tiles of ``oc`` blocks and some pixels."""
    tiles = -(-workload.out_height // tile_h)
    partitions = [
        partition_of(workload, machine, oc, tile_h, span) for span in spans(machine, tiles)
    ]
    cycles = sum(tile_parts(workload, machine, oc, tile_h, tile_w).values())
    return best(partitions, cycles, *activation_bytes(workload, machine)).bands
