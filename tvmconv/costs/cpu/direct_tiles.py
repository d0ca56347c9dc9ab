"""The cost model of AMX kernels: groups of tiles of accumulators, and the copy of the image.

A step multiplies each tile of pixels of a group by each tile of weights. Its cycles are the maximum
of the AMX unit's, of loads from L1, and of bytes from L2. Accumulators are stored and read again by
the epilogue, which overlaps with the next group's products. A group costs the maximum of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvmconv.algorithms.integer.direct_tiles import copied_bytes
from tvmconv.algorithms.integer.tile_copies import (
    ChannelsTogether,
    TileCopy,
    is_pixelwise,
    padded_plane,
    plane,
    tile_copy,
    tiles_of,
)
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cuts import divisors
from tvmconv.machines.record import Machine

# tiles of pixels and output blocks of a group: two by two share most loads
_PIXEL_TILES, _BLOCKS = (1, 2, 3, 4), (1, 2)
# groups of one panel of weights beyond which its prefetches are not worthwhile
_MOST_GROUPS = 16


@dataclass(frozen=True)
class TileUnitModel:
    """Costs of groups of tiles of a dense INT8 layer, on a CPU with AMX."""

    workload: Conv2dWorkload
    machine: Machine

    @staticmethod
    def registers(oc: int, pixel_tiles: int) -> int:
        """Tile registers of a group: accumulators, weights of all blocks, and a tile of pixels."""
        return oc * pixel_tiles + oc + 1

    @property
    def copy(self) -> TileCopy:
        """The copy of the image."""
        return tile_copy(self.workload, self.machine)

    def configs(self) -> Iterator[Config]:
        """Groups worth comparing."""
        height, width = plane(self.workload)
        unit = tiles_of(self.machine)
        fewest = -(-width // unit.rows)
        widths = {max(2, -(-width // n)) for n in range(fewest, fewest + 3)}
        widths |= {unit.rows} if width >= unit.rows else set()
        for oc in _BLOCKS:
            for count in _PIXEL_TILES:
                if self.registers(oc, count) > unit.registers:
                    continue
                for oh in {1, count}:
                    side = count // oh
                    for ow in widths:
                        if oh <= height and (side - 1) * ow < width:
                            yield self._with_bands(oc, oh, ow, side)

    def _with_bands(self, oc: int, oh: int, ow: int, side: int) -> Config:
        """A group with cache blocks: pieces of a copy that stay in L2, enough for all threads."""
        w, cores = self.workload, self.machine.cores
        config = Config.of(oc=oc, oh=oh, ow=ow, side=side, rows=0, fetch=0)
        rows, fewest = self.group_rows(config), 1
        panels = -(-self.machine.blocks(w.out_channels) // oc)
        if is_pixelwise(w):
            fewest = -(-self.copy.bytes(config) // w.batch // (self.machine.l2_bytes // 4))
        if w.batch % cores and (is_pixelwise(w) or (panels % cores and panels < 4 * cores)):
            fewest = max(fewest, cores)
        if is_pixelwise(w) or fewest > 1:
            fitting = (d for d in divisors(rows) if d * fewest <= rows)
            config = config.replace(rows=max(fitting, default=1))
        groups = prod(padded_plane(w, config)) // (oh * ow * side)
        beyond_l1 = prod(w.weight_shape) > self.machine.l1d_bytes
        return config.replace(fetch=int(beyond_l1 and groups <= _MOST_GROUPS))

    def group_rows(self, config: Config) -> int:
        """Groups, or rows of them, that cache blocks share."""
        height, width = padded_plane(self.workload, config)
        if is_pixelwise(self.workload):
            return width // (config.int("ow") * config.int("side"))
        return height // config.int("oh")

    def best(self) -> Config:
        """The cheapest group."""
        return min(self.configs(), key=lambda c: (sum(self.parts(c).values()), str(c)))

    def group_cycles(self, config: Config) -> float:
        """Cycles of one group of tiles."""
        unit, machine, steps = tiles_of(self.machine), self.machine, self.copy.count
        oc, ow = config.int("oc"), config.int("ow")
        count = config.int("oh") * config.int("side")
        weights = oc * unit.rows * unit.row_bytes
        from_l2 = weights if weights * steps > machine.l1d_bytes // 2 else 0
        if copied_bytes(self.workload, machine, config) > machine.l1d_bytes // 2:
            # neighboring taps read a row of pixels from L1 again
            from_l2 += count * ow * unit.row_bytes // self.workload.kernel_w
        step = max(
            constants.TILE_STEP * oc * count * ow / unit.rows_a_cycle,
            (oc * unit.rows + count * ow) / machine.load_ports,
            from_l2 / machine.rates.l2,
        )
        epilogue = self._epilogue * oc * count * ow
        return max(
            steps * step + constants.GROUP_CYCLES + constants.EPILOGUE_SHOWN * epilogue, epilogue
        )

    @property
    def _epilogue(self) -> float:
        """Cycles of one vector's epilogue."""
        each = {"quantise": constants.QUANTIZE_STEP, "add": constants.ADD_STEP}
        kinds = [step.kind for step in self.workload.epilogue if step.kind != "bias"]
        return constants.REQUANTIZE + sum(each.get(kind, 1.0) for kind in kinds)

    def parts(self, config: Config) -> dict[str, float]:
        """Cycles of products and epilogues, of the copy, and of waiting for bytes."""
        w, machine = self.workload, self.machine
        height, width = padded_plane(w, config)
        each = config.int("oh") * config.int("side") * config.int("ow")
        panels = -(-machine.blocks(w.out_channels) // config.int("oc"))
        tasks = w.batch * (1 if is_pixelwise(w) and config.int("rows") else panels)
        tasks *= self.group_rows(config) // (config.int("rows") or self.group_rows(config))
        share = -(-tasks // machine.cores) / tasks
        groups = w.batch * (height * width // each) * panels
        arithmetic = groups * self.group_cycles(config) * share
        piece = machine.channel_block if isinstance(self.copy, ChannelsTogether) else 4
        copied = constants.COPIED * self.copy.bytes(config) / piece
        read, written = (
            itemsize(dtype) * machine.channel_block * machine.blocks(channels) * w.batch * area
            for dtype, channels, area in (
                (w.types.data, w.in_channels, w.in_height * w.in_width),
                (w.types.output, w.out_channels, w.out_height * w.out_width),
            )
        )
        copy = copied_bytes(w, machine, config)
        held = read + written + min(copy, machine.l2_bytes // 4)
        moved = read + 2 * written + 2 * copy * (copy > machine.l2_bytes // 4)
        waiting = moved / machine.rates.behind_l2 if held > machine.l2_bytes else 0.0
        return {
            "arithmetic": arithmetic,
            "packing": copied / machine.cores,
            "activations": max(0.0, waiting - arithmetic - copied / machine.cores),
            "weights": prod(w.weight_shape) / machine.rates.memory / machine.cores,
        }
