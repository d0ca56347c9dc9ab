"""Cache blocks of direct convolution, which are also the bands of rows that threads share."""

from __future__ import annotations

from math import ceil
from typing import Protocol

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.partition import Partition, crossing_cycles, output_bytes, overlaps
from tvmconv.machines.record import Machine


class TileModel(Protocol):
    """The properties that a partition reads of :class:`tvmconv.costs.cpu.direct.TileModel`."""

    @property
    def workload(self) -> Conv2dWorkload:
        """The layer."""

    @property
    def machine(self) -> Machine:
        """The CPU."""

    @property
    def shape(self) -> Conv2dWorkload:
        """The workload of the kernel's loops."""

    @property
    def out_blocks(self) -> int:
        """Blocks of output channels."""

    @property
    def taps(self) -> int:
        """Pixels that each output reads of a channel."""

    @property
    def input_bytes(self) -> int:
        """Bytes of one image."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of the packed weights."""

    @property
    def whole_blocks(self) -> bool:
        """Whether a thread computes whole cache blocks."""

    @property
    def pass_cycles(self) -> float:
        """Cycles with which each cache block begins."""

    def cycles(self, oc: int, oh: int, ow: int) -> float:
        """Cycles of the whole layer on one core."""

    def places(self, oh: int, ow: int) -> int:
        """Tiles of one group of output blocks."""


# minimum tiles of a cache block of a pixelwise layer
_FEWEST_TILES = 4


def partition_of(
    model: TileModel, oc: int, oh: int, ow: int, rows: int, *, parts: bool = False
) -> Partition:
    """How threads share the tiles with cache blocks of ``rows``; 0: one block.

    With ``parts`` of the reduction, a thread computes whole cache blocks.
    """
    w = model.shape
    one_row = w.out_height == 1
    tiles = ceil(w.out_width / ow) if one_row else ceil(w.out_height / oh)
    groups = -(-model.out_blocks // oc)
    whole = one_row or model.whole_blocks or parts
    missing = groups - model.out_blocks / oc
    span = min(rows, tiles) or tiles
    return Partition(model.machine, w.out_planes, tiles, groups, span, whole, missing)


def crossing_of(model: TileModel, partition: Partition) -> float:
    """Cycles of waiting for bytes that cross cores."""
    w = model.workload
    written = output_bytes(w, model.machine)
    read = w.batch * w.in_depth * model.input_bytes
    edges = partition.edge_cycles(overlaps(w), model.machine.blocks(w.in_channels))
    return crossing_cycles(model.machine, partition.crossing(read, written)) + edges


def block_rows(model: TileModel, oc: int, oh: int, ow: int) -> int:
    """Tiles of a cache block that share one pass over all weights; 0: all.

    One core: the block of a pixelwise layer minimizes the bytes from beyond L2. Without blocks the
    input is read once per group of output blocks unless it stays in L2. With blocks the weights are
    read once per block. Larger kernels reuse rows from one tile row to the next and gained nothing.
    In strided pixelwise layers, which are not one row, tile rows are counted.

    Several cores: blocks are also bands of rows that threads share. Each thread then reads all
    weights, but none of the activations that other cores wrote.
    """
    machine, half = model.machine, model.machine.l2_bytes // 2
    if model.taps > 1 and machine.cores == 1:
        return 0
    one = partition_of(model, oc, oh, ow, 0)
    arithmetic = model.cycles(oc, oh, ow)

    def cost(blocks: int) -> float:
        partition = partition_of(model, oc, oh, ow, -(-one.tiles // blocks))
        reads = 1 if model.taps > 1 or model.input_bytes / blocks <= half else one.groups
        passes = blocks / min(blocks, machine.cores) if model.weight_bytes > half else 1
        moved = model.input_bytes * reads + model.weight_bytes * passes
        # the next block reads weights from L2 again
        again = max(0, blocks - machine.cores) * model.weight_bytes / machine.rates.l2
        beyond = constants.TRAFFIC_SHOWN * moved / machine.rates.behind_l2
        beyond += constants.L2_SHOWN * again
        computed = arithmetic + blocks * model.pass_cycles
        waiting = partition.weights_again(model.weight_bytes) + crossing_of(model, partition)
        return partition.share * (computed + beyond) + waiting

    most = min(machine.cores, one.tiles)
    if model.taps == 1:
        most = max(most, one.tiles // _FEWEST_TILES)
    blocks = min(range(1, most + 1), key=cost)
    return 0 if blocks == 1 else -(-one.tiles // blocks)
