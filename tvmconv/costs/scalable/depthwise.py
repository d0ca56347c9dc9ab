"""The cost model of depthwise convolution by scalable vectors of pixels."""

from __future__ import annotations

from math import ceil

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.depthwise import arithmetic_cycles as fixed_arithmetic_cycles
from tvmconv.costs.scalable import constants
from tvmconv.costs.scalable.direct import gather_cycles
from tvmconv.machines.record import Machine


def arithmetic_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of the instructions."""
    vectors, rows, w = config.int("vectors"), config.int("tile_h"), workload
    if not vectors:
        return fixed_arithmetic_cycles(w, machine)
    sums = w.taps * rows * vectors / (machine.rates.multiply_adds * machine.vector.rate)
    # a row that is read for one row of the tile also serves its neighbors
    read = w.kernel_w * (rows + w.kernel_h - 1) * vectors + w.kernel_h * w.kernel_w
    loaded = w.kernel_d * read / machine.load_ports
    if w.stride_w > 1:
        # pixels are gathered, and rows between the strides are not shared
        rows_read = max((rows - 1) * w.stride_h + w.kernel_h, rows)
        loaded = w.kernel_d * w.kernel_w * rows_read * vectors * gather_cycles(machine)
    tile = max(sums, loaded) + constants.DEPTHWISE_TILE
    tiles = ceil(w.out_width / (vectors * machine.segments)) * ceil(w.out_height / rows)
    blocks = w.out_planes * machine.blocks(w.in_channels)
    return blocks * tiles * tile / min(machine.cores, blocks)
