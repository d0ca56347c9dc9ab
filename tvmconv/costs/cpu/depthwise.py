"""The cost model of depthwise convolution, and the tiles that fit the registers."""

from __future__ import annotations

from dataclasses import replace

from tvmconv.algorithms.depthwise.small_groups import group_sizes, window
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.partition import Partition, output_bytes
from tvmconv.costs.parts import slowest
from tvmconv.machines.record import Machine

# FMAs in one unrolled tile; beyond this the border copies exceed the L1i
UNROLL_LIMIT = 256
# rows of a tile that read the same rows of pixels
_MOST_OVERLAPPING = 3
# Minimum columns of a tile in registers. With fewer, weights are loaded again. For 5x5 kernels on
# 7x7 planes, 3x2 tiles took 1.28 times as long as rows of seven.
_FEWEST_COLUMNS = 4


def widest(machine: Machine) -> int:
    """Tile width for which accumulators and the input vectors of one row fit."""
    return 8 if machine.vector_registers >= 32 else 6


def kept_columns(workload: Conv2dWorkload, machine: Machine) -> int:
    """The widest row, or a narrower one if repeated loads of vectors delay FMAs.

    The narrower row leaves registers for all weights. 1x8 tiles of 3x3 kernels with stride 2
    spilled and load 8.7 vectors an output; 1x7 tiles load 6.2.
    """
    w, most = workload, widest(machine)
    if multiply_of(w, machine).is_packed or not machine.code.loads_block:
        return most
    others = w.kernel_h * w.kernel_w + _row(w, 0)
    held = (machine.vector_registers - 1 - others) // (1 + w.stride_w)
    return min(most, held) if held >= _FEWEST_COLUMNS else most


def overlapping(workload: Conv2dWorkload, machine: Machine) -> tuple[int, int] | None:
    """Rows and columns of a tile whose rows of pixels serve several rows of outputs, if any.

    Registers hold the accumulators, a row of pixels and its weights, and one more for each next
    row. 3x4 tiles of 3x3 kernels load 2.6 vectors an output, rows of 8 columns 3.9.
    """
    w = workload
    rows = min(_MOST_OVERLAPPING, w.kernel_h // w.stride_h, w.out_height)
    others = rows * w.kernel_w + rows - 1 + _row(w, 0)
    columns = (machine.vector_registers - 1 - others) // (rows + w.stride_w)
    unrolled = rows * columns * w.kernel_h * w.kernel_w <= UNROLL_LIMIT
    if rows < 2 or columns < _FEWEST_COLUMNS or w.dilation_h > 1 or not unrolled:
        return None
    return rows, min(columns, w.out_width)


def holds_row(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether registers hold a whole row of accumulators and all pixels that a row of taps reads.

    Pixels are then loaded once. 3x3 rows of 12 to 15 took 0.95 to 1.0 of the cycles of two tiles by
    estimates for Arm, and rows of 14 with AVX-512 took 0.98 of the time.
    """
    w = workload
    read = min(w.in_width, _row(w, w.out_width) - w.pad_left)
    return w.out_width + read + 2 <= machine.vector_registers


def _row(w: Conv2dWorkload, columns: int) -> int:
    """Pixels of a row that so many columns of outputs read; for 0, pixels beyond the strides."""
    return (columns - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1


def arithmetic_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles of the FMAs, and of permutations for small groups."""
    w = workload
    vectors = w.out_planes * machine.blocks(w.out_channels)
    instructions = w.taps if w.is_depthwise else w.taps + _permutations(w, machine)
    fma = w.out_height * w.out_width * instructions / machine.rates.multiply_adds
    return vectors * fma / min(machine.cores, vectors)


def _permutations(w: Conv2dWorkload, machine: Machine) -> float:
    """Permuted vectors for one vector of outputs: columns of a tile share them, rows do not."""
    inputs, _ = group_sizes(w)
    tile = min(widest(machine), w.out_width)
    columns = min(_row(w, tile), tile * w.kernel_w)
    return w.kernel_d * w.kernel_h * inputs * columns / tile


def traffic_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles in which input and output are read from L2 and written there."""
    w, types = workload, workload.types
    vectors = w.out_planes * machine.blocks(w.out_channels)
    # a volume's planes are read again for every tap along the depth, mostly from L2
    pixels_in = w.in_height * w.in_width * w.kernel_d
    lanes = machine.channel_block if w.is_depthwise else window(w, machine)
    pixels_out = w.out_height * w.out_width
    read = pixels_in * itemsize(types.data) * lanes
    moved = read + 2 * pixels_out * itemsize(types.output) * machine.channel_block
    rate = constants.DEPTHWISE_L2 * machine.rates.l2
    return vectors * moved / rate / min(machine.cores, vectors)


def call_cycles(workload: Conv2dWorkload, machine: Machine) -> dict[str, float]:
    """The slower of the FMAs and of the traffic with L2, on one core."""
    alone = replace(machine, cores=1)
    return slowest(
        arithmetic=arithmetic_cycles(workload, alone), memory=traffic_cycles(workload, alone)
    )


def partition_of(workload: Conv2dWorkload, machine: Machine, tile_h: int, span: int) -> Partition:
    """How threads share tiles of so many rows, in bands of ``span`` tiles."""
    tiles = -(-workload.out_height // tile_h)
    blocks = machine.blocks(workload.out_channels)
    return Partition(machine, workload.out_planes, tiles, blocks, span)


def activation_bytes(workload: Conv2dWorkload, machine: Machine) -> tuple[int, int]:
    """Bytes of input and output, with whole channel blocks."""
    w, lanes = workload, machine.channel_block
    rows_read = w.batch * w.in_depth * w.in_height * w.in_width
    read = itemsize(w.types.data) * lanes * machine.blocks(w.in_channels) * rows_read
    return read, output_bytes(w, machine)
