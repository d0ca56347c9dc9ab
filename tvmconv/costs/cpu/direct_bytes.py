"""The cost model of direct convolution by products of bytes: tiles of one output block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt

from tvmconv.algorithms.direct.direct import flattened
from tvmconv.algorithms.integer.byte_rows import regular_steps
from tvmconv.algorithms.integer.complemented_copy import copied_dwords
from tvmconv.algorithms.integer.packed_pixels import is_packable, packed_dwords, pixels_of
from tvmconv.algorithms.integer.saturation import MASKS, WORD
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.microkernel import ROUNDING, Microkernel
from tvmconv.machines.multiply import multiplications_a_cycle

# weights of two steps, the factor that adds products of 16 bits, and a product
_BESIDE_SUMS = 4
# what else speed takes: another product, and one without which LLVM makes the factor anew in each
# step (1x1 layers by 10 pixels took 0.92 to 1.0 of the time of 11)
_MORE_BESIDE_SUMS = 2
# products of a step for one pixel, where the step has no partner
_MULTIPLICATIONS = 2
# Steps without a partner: so many times the share of excess or its square, the smaller one; more
# for each byte order. Counted with normal weights of two scales and 64 to 1024 channels.
_ALONE, _ALONE_SQUARED, _ALONE_BY_ORDERS = 2, 20, 4
# vectors of sums that make one of results
_NARROWED = 4
# Shares, in 32nds, of a kernel's steps that its excess may take. Normal weights whose largest are
# 2.7 to 4.5 times their deviation need 1 to 30 %; pairs of 16 bits are as fast as a fourth.
_SHARES, _WHOLE = (0, 1, 2, 3, 4, 6), 32


def excess_sizes(steps: int) -> tuple[int, ...]:
    """Steps for excess that kernels are made with; few, so that layers share them."""
    return tuple(dict.fromkeys(-(-steps * share // _WHOLE) for share in _SHARES))


@dataclass(frozen=True)
class ByteTileModel(TileModel):
    """Costs of tiles of ``oh`` rows and ``ow`` columns of one output block.

    Parameters
    ----------
    excess
        Steps beside those of all weights.
    packed
        In how many orders of words' bytes tiles of pixels are packed, with complements of each, or
        whether a copy with padding has complements.
    """

    excess: int = 0
    packed: int = 0

    @cached_property
    def shape(self) -> Conv2dWorkload:
        """Packed pixels are neighbours in one row, of a stride, too."""
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

    def tile_cycles(self, oc: int, pixels: int, columns: int = 0) -> float:
        """Cycles of one register tile: those of multiplications, mostly."""
        rate = multiplications_a_cycle(self.machine)
        around = Microkernel(self.machine, pixels, 1).cycles(0)
        if self.workload.types.is_requantised:
            # four vectors are narrowed at once, whether all are there or not
            around += -(-pixels // _NARROWED) * _NARROWED * ROUNDING / rate
        alone = max(_MULTIPLICATIONS * pixels / rate, constants.SHORTEST_STEP)
        of_two = max(
            (constants.PAIRED_PRODUCTS / rate + constants.HELD_UP) * pixels, constants.SHORTEST_STEP
        )
        if not self.packed:
            alone *= 1 + constants.COMPLEMENT
        steps = self._alone * alone + (self.steps - self._alone) * of_two
        cycles: float = steps + self.steps * constants.STEP_CYCLES + around
        return cycles

    @property
    def _alone(self) -> float:
        """Steps that have no partner, where weights are distributed normally."""
        found = constants.ALONE_BY_COMPLEMENTS * self._complements
        if self.packed > 1:
            found = self.excess * (_ALONE + _ALONE_BY_ORDERS * (self.packed - 1))
        elif self.packed:
            squared = _ALONE_SQUARED * self.excess / (self.steps - self.excess)
            found = self.excess * min(_ALONE, squared)
        return min(found, self.steps)

    @property
    def _complements(self) -> float:
        """Steps of complemented data, where weights are distributed normally.

        A pair is safe as it is as often as complemented. Of two pairs that are so with probability
        ``1 - p`` for all outputs of a block, ``2 p`` of words need either and ``2 p**2`` have
        excess all the same.
        """
        if self.packed:
            return 0.0
        regular = self.steps - self.excess
        return min(sqrt(2 * self.excess * regular), regular) - min(self.excess, regular)

    def registers(self, oc: int, oh: int, ow: int) -> int:
        """Vector registers of a tile."""
        return oh * ow + _BESIDE_SUMS

    def tiles(self) -> list[tuple[int, int, int]]:
        """Tiles of one block and one row, or two where rows are short, all about as wide."""
        w = self.shape
        most = self.machine.vector_registers - _BESIDE_SUMS - _MORE_BESIDE_SUMS
        heights = (1, 2) if not self._packs_tiles and 2 * w.out_width <= most else (1,)
        return [
            (1, height, width)
            for height in heights
            for width in range(1, min(w.out_width, most // height) + 1)
            if height <= w.out_height and width == _even(w.out_width, width)
        ]

    def best(self) -> Config:
        """The cheapest tile and cache block."""
        _, oh, ow = self.best_tile()
        rows, shares = self.block(1, oh, ow), 1
        if self._packs_tiles:
            # a tile that all output blocks use stays in L1, their weights stream
            rows, cores = 1, self.machine.cores
            shares = 1 if self._tiles(ow) % cores == 0 or self._tiles(ow) > 4 * cores else cores
        return Config.of(
            oh=oh, ow=ow, rows=rows, excess=self.excess, packed=self.packed, shares=shares
        )

    def parts(self, config: Config) -> dict[str, float]:
        """As of :class:`TileModel`, and cycles of packing."""
        found = super().parts(Config.of(**config, oc=1))
        if self.packed and not self._packs_tiles:
            # pixels of a row are stored one by one, then vectors of it with each complement
            row = copied_dwords(self.workload, self.machine) * WORD * self.workload.batch
            machine = self.machine
            stores = row / machine.channel_block + row * len(MASKS) / machine.vector_bytes
            found["arithmetic"] += stores * constants.PACK_STORE / machine.cores
            if row * len(MASKS) > machine.l2_bytes:
                # every output block reads it anew: 128 channels of 56x56, stride 2, took 1.1 times
                # as long as with a loop of complements
                read = row * self.out_blocks / machine.rates.behind_l2
                found["activations"] += read / machine.cores
        if self._packs_tiles:
            pixels, machine = config.int("ow"), self.machine
            strided = (self.workload.stride_h, self.workload.stride_w) != (1, 1)
            stored = machine.channel_block * (1 if strided else pixels)
            stores = (
                packed_dwords(self.workload, machine, pixels, self.packed)
                * WORD
                / min(stored, machine.vector_bytes)
            )
            tasks = self._tiles(pixels) * config.int("shares")
            found["arithmetic"] += tasks * stores * constants.PACK_STORE / machine.cores
        return found

    def _tiles(self, pixels: int) -> int:
        return self.workload.batch * -(-pixels_of(self.workload) // pixels)


def _even(extent: int, width: int) -> int:
    """The width of as many tiles that differ least."""
    return -(-extent // -(-extent // width))
