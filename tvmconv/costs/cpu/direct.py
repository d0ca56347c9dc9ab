"""The cost model of direct convolution: its register tile and cache block.

After Zhang et al. 2018, section 3. A tile costs as much as a
:class:`~tvmconv.costs.cpu.microkernel.Microkernel`. This model adds edges, rows of pixels that are
not neighbors, and weights and activations from beyond L2.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod

from tvmconv.algorithms.direct.channels import (
    dword_blocks,
    input_span,
    skips_channels,
    tile_channels,
)
from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.direct.group_lanes import selects_groups, tile_groups
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import DWORD_BYTES
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct_partition import block_rows, crossing_of, partition_of
from tvmconv.costs.cpu.direct_parts import repeated_cycles
from tvmconv.costs.cpu.microkernel import ROUNDING, Microkernel
from tvmconv.costs.cpu.partition import memory_rate, output_bytes
from tvmconv.machines.multiply import Multiply, steps_a_cycle
from tvmconv.machines.record import Machine

# taps of a row beyond which LLVM keeps the loop over them
_WRITTEN_TAPS = 15
# statements in unrolled border copies beyond which compiling takes too long
_MOST_STATEMENTS = 2500
# Registers for dwords that are loaded ahead. In ResNet-50 on Zen 4, two blocks of 12 pixels took
# 0.95 to 0.98 of the time of one of 28 or 30, and 0.95 to 0.99 of two of 14.
_DWORDS_AHEAD = 2


@dataclass(frozen=True)
class TileModel:
    """Costs of tiles of ``oc`` output blocks, ``oh`` rows and ``ow`` columns, in vectors.

    ``skips`` says whether tiles skip the channels of other groups.
    """

    workload: Conv2dWorkload
    machine: Machine
    skips: bool = field(default=True, kw_only=True)

    @cached_property
    def shape(self) -> Conv2dWorkload:
        """The workload of the kernel's loops: a pixelwise layer is one row."""
        return flattened(self.workload)

    @cached_property
    def out_blocks(self) -> int:
        """Blocks of output channels."""
        return self.machine.blocks(self.workload.out_channels)

    @cached_property
    def steps(self) -> int:
        """Reduction steps of one tile: input channels, or dwords of them, times taps.

        Where tiles skip channels, this is the longest tile's number, with one output block.
        """
        w, machine = self.workload, self.machine
        if self._multiply.is_packed:
            blocks, dwords = dword_blocks(w, machine, halves=self.skips)
            return blocks * dwords * self.taps
        if self._selects:
            return w.in_channels // w.groups * self.taps
        if w.groups > 1 and self.skips and skips_channels(w, machine):
            parts = tile_channels(w, machine, 1)
            return max(end - begin for begin, end in parts) * self.taps
        return min(input_span(w, machine) * machine.channel_block, w.in_channels) * self.taps

    @cached_property
    def taps(self) -> int:
        """Pixels that each output value reads of every input channel."""
        w = self.workload
        return w.kernel_d * w.kernel_h * w.kernel_w

    def registers(self, oc: int, oh: int, ow: int) -> int:
        """Vector registers of a tile."""
        multiply = self._multiply
        if multiply.is_packed and self.machine.code.by_lane:
            return self._dword_registers(multiply, oc, oh, ow)
        pixels = oh * (self._held(ow) if self.machine.code.orders_sums else len(self._columns(ow)))
        # a product that another instruction adds has a register next to a shared broadcast
        product = int(multiply.steps > 1 and oc > 1)
        if self._selects and tile_groups(self.workload, self.machine, oc) > 1:
            # the values of the next group, and a vector of values of both
            product += 2
        return Microkernel(self.machine, oh * ow, oc).block_registers(pixels) + product

    def _dword_registers(self, multiply: Multiply, oc: int, oh: int, ow: int) -> int:
        """Vector registers of a tile if a vector has the dwords of several neighboring pixels.

        Spread values are loaded ahead, further ahead for in-order cores. Two parts of weights that
        are multiplied separately have separate registers.
        """
        machine = self.machine
        neighbors = machine.vector_bytes // multiply.step_bytes
        if multiply.is_matrix:
            # weights of a block are two vectors, of which one is loaded ahead
            return oc * _pairs(oh * ow) * neighbors + 2 * oc + 4
        pixels = oh * ceil(ow / neighbors)
        held = oc * oh * ow + oc + pixels
        if not multiply.spread:
            # two steps are unrolled
            return held + 2 * pixels + 2
        ahead = machine.code.loads_ahead
        # with a stride, fewer of a vector's pixels are multiplied by a tile
        held += oh * ceil(ow / max(1, neighbors // self.shape.stride_w)) - pixels
        return held + oc + multiply.steps + multiply.spread * (2 + ahead) + ahead

    @cached_property
    def _selects(self) -> bool:
        """Whether lanes select the values of their groups."""
        return self.skips and selects_groups(self.workload, self.machine)

    @cached_property
    def _multiply(self) -> Multiply:
        """The multiply instruction."""
        return multiply_of(self.workload, self.machine)

    @cached_property
    def _dwords(self) -> int:
        """Dwords that a step multiplies for each accumulator."""
        return max(1, self._multiply.step_bytes // DWORD_BYTES)

    @property
    def _pairs_apart(self) -> bool:
        """Whether pixels of a matrix are not neighbors; a copy for a 1x1 layer joins them."""
        w = self.shape
        return self._multiply.is_matrix and w.stride_w > 1 and w.kernel_w > 1

    def _columns(self, ow: int) -> set[int]:
        """Columns that a row of a tile reads in all unrolled taps."""
        w = self.shape
        taps = range(min(w.kernel_w, _WRITTEN_TAPS))
        return {x * w.stride_w + s * w.dilation_w for x in range(ow) for s in taps}

    def _held(self, ow: int) -> int:
        """Maximum number of columns that are alive at a tap: read before, and needed later."""
        w = self.shape
        taps = min(w.kernel_w, _WRITTEN_TAPS)
        uses = [{x * w.stride_w + s * w.dilation_w for x in range(ow)} for s in range(taps)]
        return max(len(set().union(*uses[: s + 1]) & set().union(*uses[s:])) for s in range(taps))

    def tiles(self) -> list[tuple[int, int, int]]:
        """Every tile within the registers that a default may use."""
        w, limit = self.shape, self.machine.vector_registers
        code = self.machine.code
        lone = not (code.by_lane or self._multiply.is_packed)
        if w.kernel_w > 1 and code.unrolls_block and lone:
            limit -= 1
        return [
            (oc, oh, ow)
            for oc in range(1, min(self.out_blocks, 6) + 1)
            for oh in range(1, min(w.out_height, 4) + 1)
            for ow in range(1, min(w.out_width, limit) + 1)
            if self.registers(oc, oh, ow) <= limit and (oh == 1 or self._small(oc, oh, ow))
        ]

    def cycles(self, oc: int, oh: int, ow: int) -> float:
        """Cycles of the whole layer on one core with its data in the caches."""
        w, total = self.shape, 0.0
        for count_k, k, steps in self._channel_tiles(oc):
            for count_h, h in pieces(w.out_height, oh):
                for count_x, x in pieces(w.out_width, ow):
                    tile = self.tile_cycles(k, h * x, h * len(self._columns(x)), steps)
                    total += count_k * count_h * count_x * tile
        return w.out_planes * total

    def _channel_tiles(self, oc: int) -> list[tuple[int, int, int]]:
        """(count, blocks, steps) of tiles of output blocks that have as many of both."""
        whole = pieces(self.out_blocks, oc)
        skips = self.skips and skips_channels(self.workload, self.machine)
        if self.workload.groups == 1 or not skips:
            return [(count, blocks, self.steps) for count, blocks in whole]
        blocks = [size for count, size in whole for _ in range(count)]
        parts = tile_channels(self.workload, self.machine, oc)
        steps = [(end - begin) * self.taps for begin, end in parts]
        return [(count, *tile) for tile, count in Counter(zip(blocks, steps, strict=True)).items()]

    def tile_cycles(self, oc: int, pixels: int, columns: int = 0, steps: int = 0) -> float:
        """Cycles of one register tile over the whole reduction.

        ``columns`` are the pixels that all taps of a row read, by default the pixels of each tap.
        ``steps`` are by default :attr:`steps`.
        """
        steps = steps or self.steps
        w, machine, rate, rounded = self.workload, self.machine, 0.0, 0.0
        sums = pixels
        if self._multiply.is_packed:
            rate = steps_a_cycle(self._multiply, machine, oc)
            sums = 2 * _pairs(pixels) if self._multiply.is_matrix else pixels
        if w.types.is_requantised:
            rounded = pixels * oc * ROUNDING / machine.rates.multiply_adds
        joined = 0.0
        if sums != pixels or self._pairs_apart:
            # dwords of two distant pixels are joined to one vector by an extra instruction
            joined = (_pairs(pixels) if self._pairs_apart else 1) / machine.rates.multiply_adds
        read = columns / (machine.lanes * min(w.kernel_w, _WRITTEN_TAPS)) or None
        groups = tile_groups(w, machine, oc) if self._selects else 1
        tile = Microkernel(machine, sums, oc, rate, self._dwords, read, groups)
        return tile.cycles(steps) + steps * joined + rounded

    def runs(self, oc: int, oh: int, ow: int) -> int:
        """Rows of pixels of one channel block that all tiles read."""
        w, groups = self.shape, ceil(self.out_blocks / oc)
        blocks = input_span(self.workload, self.machine)
        rows = w.kernel_d * w.kernel_h
        return w.out_planes * groups * self.places(oh, ow) * blocks * oh * rows

    def places(self, oh: int, ow: int) -> int:
        """Tiles of one group of output blocks."""
        return ceil(self.shape.out_height / oh) * ceil(self.shape.out_width / ow)

    def _small(self, oc: int, oh: int, ow: int) -> bool:
        """Whether a tile of several rows, whose border rows are unrolled too, compiles well."""
        w = self.shape
        # selections double the code of border copies: tiles of one row took 0.59 to 0.96 as long
        if w.has_padding and (self.machine.code.unrolls_block or self._selects):
            return False
        copies = (3 if w.pad_left or w.pad_right else 1) * (3 if w.pad_top or w.pad_bottom else 1)
        copies *= 2 if self.out_blocks % oc else 1
        taps = w.kernel_h * w.kernel_w if copies > 1 else 1
        return copies * taps * oc * oh * ow <= _MOST_STATEMENTS

    def best_tile(self) -> tuple[int, int, int]:
        """The cheapest tile; among equals the tile with fewer rows and more pixels."""
        padded = self.shape.has_padding
        by_lane, orders_sums = self.machine.code.by_lane, self.machine.code.orders_sums
        dwords = self._multiply.is_packed and self._multiply.steps == 1 and not by_lane
        shared = self.out_blocks > 1
        pixelwise = dwords and shared and self.taps == 1
        # in tiles of one block each FMA reads its pixel from memory
        rereads = shared and not (self._multiply.is_packed or by_lane)
        alone = constants.ONE_BLOCK if pixelwise or rereads else 1.0
        rows: float = constants.DWORD_ROWS_FETCHED if dwords else constants.ROWS_FETCHED
        if not dwords and not by_lane:
            # instructions are fetched half as fast if a vector occupies the units for two cycles
            fetched = self.machine.code.border_rows * self.machine.rates.multiply_adds / 2
            rows = 1 + (rows - 1) * fetched

        def cost(tile: tuple[int, int, int]) -> tuple[float, int, bool, int]:
            oc, oh, ow = tile
            fetch = rows if oh > 1 and padded else 1.0
            return (
                self.cycles(oc, oh, ow) * fetch * (alone if oc == 1 else 1.0),
                oh,
                by_lane and self.shape.out_width % ow > 0,
                -ow,
            )

        tiles = self.tiles()
        if pixelwise:
            most = self.machine.vector_registers - _DWORDS_AHEAD
            tiles = [tile for tile in tiles if tile[0] == 1 or self.registers(*tile) <= most]
        if by_lane and self.out_blocks > 1 and not (orders_sums and self.shape.kernel_w > 1):
            # with one block, each pixel serves half the FMAs and needs an address computation
            tiles = [tile for tile in tiles if tile[0] > 1]
        if self._multiply.spread:
            # the instructions of a product wait for each other
            fewest = self.machine.minimum_accumulators
            tiles = [tile for tile in tiles if prod(tile) >= fewest] or tiles
        return min(tiles, key=cost)

    @property
    def whole_blocks(self) -> bool:
        """Whether a thread computes whole cache blocks, not single tile rows of them."""
        return False

    @property
    def pass_cycles(self) -> float:
        """Cycles with which each cache block begins: none."""
        return 0.0

    def block(self, oc: int, oh: int, ow: int) -> int:
        """Tile rows of a cache block; see :func:`~.direct_partition.block_rows`."""
        return block_rows(self, oc, oh, ow)

    @cached_property
    def input_bytes(self) -> int:
        """Bytes of one image that the kernel reads; a stride may skip rows and columns."""
        w, machine = self.workload, self.machine
        rows = min(w.in_height, w.out_height * min(w.kernel_h, w.stride_h))
        columns = min(w.in_width, w.out_width * min(w.kernel_w, w.stride_w))
        block = itemsize(w.types.data) * machine.channel_block
        return block * machine.blocks(w.in_channels) * rows * columns

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights; a step uses one dword group of each output channel."""
        return (
            self._dwords * DWORD_BYTES * self.steps * self.out_blocks * self.machine.channel_block
        )

    @property
    def weight_cycles(self) -> float:
        """Cycles of waiting for weights; in a network they come from memory."""
        return self.weight_bytes / memory_rate(self.machine) / self.machine.cores

    @property
    def activation_cycles(self) -> float:
        """Cycles of the bytes of input and output from beyond L2; all cores share this rate."""
        w = self.workload
        read = w.batch * w.in_depth * self.input_bytes
        moved = read + 2 * output_bytes(w, self.machine)
        return moved / self.machine.rates.behind_l2 if moved > self.machine.l2_bytes else 0.0

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of arithmetic, of waiting for weights and for other cores, and for activations."""
        tile = tuple(config.int(name) for name in ("oc", "oh", "ow"))
        cores = self.machine.cores
        rows, in_parts = config.int("rows"), bool(config.get("kc", 0))
        partition = partition_of(self, tile[0], tile[1], tile[2], rows, parts=in_parts)
        arithmetic = self.cycles(*tile) * partition.share
        late = self.runs(*tile) * self.machine.code.late_run / cores
        begun, again = (cycles / cores for cycles in repeated_cycles(self, config))
        again += partition.weights_again(self.weight_bytes)
        waited = self.weight_cycles
        if config.get("fetch_weight", 0):
            waited = max(self.machine.code.streamed * waited, waited - arithmetic)
        return {
            "arithmetic": arithmetic + begun,
            "activations": max(0.0, self.activation_cycles - arithmetic) + late,
            "weights": waited + again,
            "crossing": crossing_of(self, partition),
        }


def _pairs(pixels: int) -> int:
    """Number of pairs of so many pixels; a single remaining pixel counts as a pair."""
    return -(-pixels // 2)


def pieces(extent: int, tile: int) -> list[tuple[int, int]]:
    """(count, size) of the full tiles and of the smaller last tile."""
    full, rest = divmod(extent, tile)
    return [(count, size) for count, size in ((full, tile), (1 if rest else 0, rest)) if count]
