"""The cost model of FP32 first layers on CPUs whose FMAs multiply by a lane of a vector.

Each pixel is loaded as a scalar, and is lane 0 of its FMAs. The FMAs of a tile are a constant share
of the peak for most tiles. The code around the FMAs decides:

- LLVM unrolls the loop over a kernel row if it is short. Then it keeps pixels that later taps read
  again in registers, and needs registers for loads ahead. Tiles of one column have no such pixels.
- A longer row stays a loop, which begins and ends in each kernel row.
- In tiles of one row, each kernel row is tested for being inside the image. Taller tiles have
  separate code at the border.
- In tiles of one or two rows, LLVM advances the pointer of a row by a load with replication. It
  occupies a vector unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tvmconv.algorithms.padding import MOST_COPIES
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import pieces
from tvmconv.costs.cuts import balanced
from tvmconv.machines.record import Machine

# maximum output blocks, rows and columns of a default tile
_BLOCKS, _ROWS, _COLUMNS = 4, 6, 16
# Minimum pixels of a default tile. With three, on layers without padding, LLVM loads each pixel
# with replication: 1.15 to 1.3 times the estimated cycles on Neoverse N1.
_PIXELS = 4
# LLVM's limit of instructions of an unrolled loop
_UNROLLED = 300
# FMAs in one unrolled tile; beyond this the border copies exceed the L1i
UNROLL_LIMIT = 320
# instructions of a pixel in LLVM's count: its load, and two of the broadcast
_OF_A_PIXEL = 3
# registers for loads ahead in unrolled code, and as many more on in-order cores
_AHEAD = 2
# tiles of more rows have pointers that LLVM does not advance by loads
_LOW = 2
# columns of a padded kernel beyond which tiles of several rows have too much border code
_LONG_ROW = 16


@dataclass(frozen=True)
class LaneTiles:
    """Costs of tiles of ``oc`` output blocks, ``rows`` and ``columns`` of pixels."""

    workload: Conv2dWorkload
    machine: Machine

    def best(self) -> tuple[int, int, int]:
        """The cheapest tile; among equals the tile with fewer columns."""
        w, machine = self.workload, self.machine
        oc = balanced(machine.blocks(w.out_channels), _BLOCKS)
        tiles = [
            (oc, rows, columns)
            for rows in range(1, min(w.out_height, _ROWS) + 1)
            for columns in range(1, min(w.out_width, _COLUMNS) + 1)
            if _held(oc, rows * columns) <= machine.vector_registers
        ]
        # in the order of what a tile loses without it; small layers have no tile with all
        for suits in (self._cuts_borders, self._fills_units, self._keeps_pixels):
            tiles = [tile for tile in tiles if suits(*tile)] or tiles
        return min(tiles, key=lambda tile: (round(self.cycles(*tile)), tile[2]))

    def _cuts_borders(self, _oc: int, rows: int, columns: int) -> bool:
        """Whether tiles at the border are separate code, of which there is not too much."""
        w = self.workload
        across, down = w.stride_w * columns, w.stride_h * rows
        copies = (
            1 + ceil(w.pad_left / across) + ceil(w.pad_right / across),
            1 + ceil(w.pad_top / down) + ceil(w.pad_bottom / down) if rows > 1 else 1,
        )
        long = w.kernel_w > _LONG_ROW and copies[0] > 1
        return max(copies) <= MOST_COPIES and not (long and rows > 1)

    def _keeps_pixels(self, oc: int, rows: int, columns: int) -> bool:
        return self.registers(oc, rows, columns) <= self.machine.vector_registers

    def _fills_units(self, oc: int, rows: int, columns: int) -> bool:
        pixels = rows * columns
        return pixels >= _PIXELS and oc * pixels >= self.machine.minimum_accumulators

    def registers(self, oc: int, rows: int, columns: int) -> int:
        """Vector registers of a tile, with pixels that are kept for later taps."""
        w, pixels = self.workload, rows * columns
        ordered, channels = self.machine.code.loads_ahead, rows * w.in_channels
        held = _held(oc, pixels)
        if self._unrolls(oc, pixels):
            held += oc + _AHEAD * (1 + ordered)
            return held + channels * self._kept(columns, w.kernel_w)
        if self._rolls_channels(oc, pixels):
            return held
        # for in-order cores LLVM unrolls any loop by two
        return held + channels * self._kept(columns, 1 + min(ordered, 1))

    def _rolls_channels(self, oc: int, pixels: int) -> bool:
        """Whether the loop over channels stays a loop."""
        return self.workload.in_channels * oc * pixels > UNROLL_LIMIT

    def _unrolls(self, oc: int, pixels: int) -> bool:
        """Whether LLVM unrolls the loop over a kernel row."""
        step = oc * pixels + oc + _OF_A_PIXEL * pixels
        return step * self.workload.in_channels * self.workload.kernel_w <= _UNROLLED

    def _kept(self, columns: int, taps: int) -> int:
        """Maximum pixels of a row that one of ``taps`` unrolled taps reads, and a later one."""
        w = self.workload
        uses = [
            {x * w.stride_w + tap * w.dilation_w for x in range(columns)}
            for tap in range(min(taps, w.kernel_w))
        ]
        shared = (
            set().union(*uses[:split]) & set().union(*uses[split:]) for split in range(1, len(uses))
        )
        return max(map(len, shared), default=0)

    def cycles(self, oc: int, rows: int, columns: int) -> float:
        """Cycles of the whole layer on one core, its pixels in L1."""
        w = self.workload
        return w.out_planes * sum(
            count_k * count_h * count_w * self._tile_cycles(k, h, x)
            for count_k, k in pieces(self.machine.blocks(w.out_channels), oc)
            for count_h, h in pieces(w.out_height, rows)
            for count_w, x in pieces(w.out_width, columns)
        )

    def _tile_cycles(self, oc: int, rows: int, columns: int) -> float:
        """Cycles of one tile.

        If loads block FMAs, weights are loaded as whole vectors, and each pixel by itself. Split
        loads do not pay, because few FMAs follow each load. If half of L1 does not hold the
        weights, every tile reads them from L2.
        """
        w, machine, pixels = self.workload, self.machine, rows * columns
        code, rate = machine.code, machine.rates.multiply_adds
        multiplied = oc * pixels / rate + code.blocked(oc, pixels)
        step = max(multiplied, machine.fma_latency, machine.load_cycles(oc, pixels))
        weights = machine.vector_bytes * oc
        if weights * w.taps > machine.l1d_bytes // 2:
            step += constants.L2_SHOWN * weights / machine.rates.l2
        kernel_rows = w.kernel_d * w.kernel_h
        around = constants.LANE_TILE + constants.LANE_STORE * oc * pixels
        if code.loads_block:
            around += constants.LANE_ADDRESS * oc * rows
        if rows == 1 and (w.pad_top or w.pad_bottom):
            around += constants.LANE_TEST * kernel_rows
        if not self._unrolls(oc, pixels):
            loops = kernel_rows * (w.kernel_w if self._rolls_channels(oc, pixels) else 1)
            around += constants.LANE_LOOP * loops
            if rows <= _LOW and not code.loads_block:
                busy = max(0.0, 1 - code.other_units)
                around += constants.LANE_REPLICATED * busy * w.taps
        return w.taps * step + around / rate


def _held(oc: int, pixels: int) -> int:
    """Vector registers of accumulators, of a tap's pixels, and of two vectors of weights."""
    return oc * pixels + pixels + 2
