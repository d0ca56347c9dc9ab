"""The cost model of ``direct_bytes``: tiles of one output block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.integer.byte_rows import regular_steps
from tvmconv.algorithms.integer.complemented_copy import copied_dwords
from tvmconv.algorithms.integer.packed_pixels import is_packable, packed_dwords, pixels_of
from tvmconv.algorithms.integer.saturation import DWORD, MASKS
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.microkernel import ROUNDING, Microkernel
from tvmconv.costs.cuts import balanced
from tvmconv.machines.multiply import multiplications_a_cycle

# registers of weights of two steps, of the factor that adds 16-bit products, and of a product
_OTHER_REGISTERS = 4
# Further registers for another product, and for the factor, which LLVM else recomputes in each
# step. 1x1 layers by 10 pixels took 0.92 to 1.0 of the time of 11.
_SPARE_REGISTERS = 2
# multiplications of a step for one pixel, if the step has no partner
_MULTIPLICATIONS = 2
# Steps without a partner: the smaller of multiples of the share of excess and of its square; more
# for each byte order. Estimated with normal weights of two scales and 64 to 1024 channels.
_ALONE, _ALONE_SQUARED, _ALONE_BY_ORDERS = 2, 20, 4
# vectors of accumulators that become one vector of results
_NARROWED = 4
# Shares of a kernel's steps for excess, in 32nds. Normal weights need 1 to 30 % if their largest
# are 2.7 to 4.5 times the deviation. 16-bit dot products are as fast as a fourth.
_SHARES, _WHOLE = (0, 1, 2, 3, 4, 6), 32


def excess_sizes(steps: int) -> tuple[int, ...]:
    """Numbers of excess steps for which kernels are built; few, so that layers share kernels."""
    return tuple(dict.fromkeys(-(-steps * share // _WHOLE) for share in _SHARES))


@dataclass(frozen=True)
class ByteTileModel(TileModel):
    """Costs of tiles of ``oh`` rows and ``ow`` columns of one output block.

    ``excess`` are steps in addition to regular steps. ``packed`` is the number of byte permutations
    in which tiles of pixels are packed with complements, or whether a padded copy has complements.
    """

    excess: int = 0
    packed: int = 0

    @cached_property
    def shape(self) -> Conv2dWorkload:
        """Packed pixels are neighbors in one row, also with a stride."""
        w = self.workload
        if not self._packs_tiles:
            return flattened(w)
        return replace(w, in_height=1, in_width=pixels_of(w), stride_h=1, stride_w=1)

    @property
    def _packs_tiles(self) -> bool:
        return self.packed > 0 and is_packable(self.workload)

    @cached_property
    def steps(self) -> int:
        """All steps of a tile."""
        return regular_steps(self.workload, self.machine) + self.excess

    def tile_cycles(self, oc: int, pixels: int, columns: int = 0, steps: int = 0) -> float:
        """Cycles of one register tile, mostly of multiplications; all tiles have as many steps."""
        rate = multiplications_a_cycle(self.machine)
        around = Microkernel(self.machine, pixels, 1).cycles(0)
        if self.workload.types.is_requantised:
            # four vectors are narrowed at once, also if some are missing
            around += -(-pixels // _NARROWED) * _NARROWED * ROUNDING / rate
        alone = max(_MULTIPLICATIONS * pixels / rate, constants.SHORTEST_STEP)
        of_two = max(
            (constants.PAIRED_PRODUCTS / rate + constants.HELD_UP) * pixels, constants.SHORTEST_STEP
        )
        if not self.packed:
            alone *= 1 + constants.COMPLEMENT
        multiplied = self._alone * alone + (self.steps - self._alone) * of_two
        return multiplied + self.steps * constants.STEP_CYCLES + around

    @property
    def _alone(self) -> float:
        """Steps without a partner, with normally distributed weights."""
        found = constants.ALONE_BY_COMPLEMENTS * self._complements
        if self.packed > 1:
            found = self.excess * (_ALONE + _ALONE_BY_ORDERS * (self.packed - 1))
        elif self.packed:
            squared = _ALONE_SQUARED * self.excess / (self.steps - self.excess)
            found = self.excess * min(_ALONE, squared)
        return min(found, self.steps)

    @property
    def _complements(self) -> float:
        """Steps of complemented data, with normally distributed weights.

        A pair is safe without complement as often as with it. Let two pairs be safe with
        probability ``1 - p`` for all outputs of a block. Then ``2 p`` of the dwords need one of the
        two, and ``2 p**2`` still have excess.
        """
        if self.packed:
            return 0.0
        regular = self.steps - self.excess
        return min(sqrt(2 * self.excess * regular), regular) - min(self.excess, regular)

    def registers(self, oc: int, oh: int, ow: int) -> int:
        """Vector registers of a tile."""
        return oh * ow + _OTHER_REGISTERS

    def tiles(self) -> list[tuple[int, int, int]]:
        """Tiles of one block with one row, or two rows if rows are short, of balanced widths."""
        w = self.shape
        most = self.machine.vector_registers - _OTHER_REGISTERS - _SPARE_REGISTERS
        heights = (1, 2) if not self._packs_tiles and 2 * w.out_width <= most else (1,)
        return [
            (1, height, width)
            for height in heights
            for width in range(1, min(w.out_width, most // height) + 1)
            if height <= w.out_height and width == balanced(w.out_width, width)
        ]

    def best(self) -> Config:
        """The cheapest tile and cache block."""
        _, oh, ow = self.best_tile()
        rows, shares = self.block(1, oh, ow), 1
        if self._packs_tiles:
            # a tile that all output blocks use stays in L1, while their weights are streamed
            rows, cores = 1, self.machine.cores
            shares = 1 if self._tiles(ow) % cores == 0 or self._tiles(ow) > 4 * cores else cores
        return Config.of(
            oh=oh, ow=ow, rows=rows, excess=self.excess, packed=self.packed, shares=shares
        )

    def parts(self, config: Config) -> dict[str, float]:
        """Parts of :class:`TileModel`, with cycles of packing."""
        found = super().parts(Config.of(**config, oc=1))
        if self.packed and not self._packs_tiles:
            # pixels of a row are stored one by one, then its vectors with each complement
            row = copied_dwords(self.workload, self.machine) * DWORD * self.workload.batch
            machine = self.machine
            stores = row / machine.channel_block + row * len(MASKS) / machine.vector_bytes
            found["arithmetic"] += stores * constants.PACK_STORE / machine.cores
            if row * len(MASKS) > machine.l2_bytes:
                # every output block reads it again: 128 channels of 56x56 with stride 2 took 1.1
                # times as long as with a loop of complements
                read = row * self.out_blocks / machine.rates.behind_l2
                found["activations"] += read / machine.cores
        if self._packs_tiles:
            pixels, machine = config.int("ow"), self.machine
            strided = (self.workload.stride_h, self.workload.stride_w) != (1, 1)
            stored = machine.channel_block * (1 if strided else pixels)
            dwords = packed_dwords(self.workload, machine, pixels, self.packed)
            stores = dwords * DWORD / min(stored, machine.vector_bytes)
            tasks = self._tiles(pixels) * config.int("shares")
            found["arithmetic"] += tasks * stores * constants.PACK_STORE / machine.cores
        return found

    def _tiles(self, pixels: int) -> int:
        return self.workload.batch * -(-pixels_of(self.workload) // pixels)
