"""How the threads share a layer, and the bytes that cross cores by it.

A thread gets a contiguous part of the loop over images, bands of rows and groups of output
channels. Bands are outside of groups. With as many bands as threads, each thread has rows of its
own, of all channels. With one band, it has channels of its own.

A layer that the threads share by rows reads what its core has just written, as long as all layers
do so. A layer shared by channels reads rows of other cores, and the next layer reads channels of
other cores. But then each thread reads only its part of the weights.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.machines.record import Machine


@dataclass(frozen=True)
class Partition:
    """A loop over ``images``, bands of ``span`` of ``tiles``, and ``groups`` of output channels.

    Tiles are rows of register tiles, or register tiles of a layer that is one row. ``whole`` is
    whether a band of a group is one iteration; otherwise each of its tiles is one. ``missing`` is
    the share that the last group lacks to be as large as the others.
    """

    machine: Machine
    images: int
    tiles: int
    groups: int
    span: int
    whole: bool = True
    missing: float = 0.0

    @property
    def bands(self) -> int:
        """Bands of an image; the last one may have fewer tiles."""
        return -(-self.tiles // self.span)

    @property
    def share(self) -> float:
        """The largest share of the tiles that one thread computes."""
        cores = self.machine.cores
        iterations = self.images * self.bands * self.groups * (1 if self.whole else self.span)
        most = -(-iterations // cores) * (self.span if self.whole else 1)
        return min(1.0, most / (self.images * self.tiles * (self.groups - self.missing)))

    @property
    def rows_apart(self) -> int:
        """Parts of the rows of all images that no two of as many threads have in common."""
        return min(self.machine.cores, self.images * self.bands)

    def crossing(
        self, input_bytes: float, output_bytes: float, *, channelwise: bool = False
    ) -> float:
        """Bytes that cross cores, of the thread with the most.

        The bytes count all images. The previous and the next layer are shared by rows. A
        ``channelwise`` layer reads only the channels that it writes.
        """
        cores, apart = self.machine.cores, self.rows_apart
        others = (1 - apart / cores) / cores
        read = input_bytes * (others if channelwise else 1 / apart - 1 / cores)
        return read + output_bytes * others

    def weights_again(self, weight_bytes: float) -> float:
        """Cycles in which a thread waits for weights from memory that other threads read, too."""
        again = weight_bytes * (self.rows_apart - 1) / self.machine.cores
        return constants.TRAFFIC_SHOWN * again / self.machine.rates.memory

    def edge_cycles(self, overlap: bool, blocks: int) -> float:
        """Cycles in which a thread waits for rows of the next thread.

        ``overlap`` is whether windows of neighboring rows overlap, and ``blocks`` are the channel
        blocks that are read.
        """
        return constants.EDGE * blocks if overlap and self.rows_apart > self.images else 0.0


def memory_rate(machine: Machine) -> float:
    """Bytes a cycle that each core receives from memory while all cores read different ones."""
    rates = machine.rates
    if not rates.all_memory:
        return rates.memory
    # `tvmconv cpu --measure` measures one core, which may exceed the record's rate of all
    return min(rates.memory, max(rates.memory, rates.all_memory) / machine.cores)


def crossing_cycles(machine: Machine, crossing: float) -> float:
    """Cycles in which a thread waits for so many bytes that other cores wrote."""
    return crossing / (constants.CROSSING * machine.rates.behind_l2)


def best(
    partitions: Iterable[Partition],
    cycles: float,
    input_bytes: float,
    output_bytes: float,
    *,
    channelwise: bool = False,
    overlap: bool = False,
) -> Partition:
    """The partition with the fewest cycles of a layer with few weights; among equals, the first.

    ``cycles`` count one core for all tiles. Bytes are as in :meth:`Partition.crossing`, and
    ``overlap`` as in :meth:`Partition.edge_cycles`.
    """

    def cost(one: Partition) -> float:
        crossing = one.crossing(input_bytes, output_bytes, channelwise=channelwise)
        waiting = crossing_cycles(one.machine, crossing) + one.edge_cycles(overlap, one.groups)
        return one.share * cycles + waiting

    return min(partitions, key=cost)


def output_bytes(workload: Conv2dWorkload, machine: Machine) -> int:
    """Bytes of the output of all images, with whole channel blocks."""
    w = workload
    block = itemsize(w.types.output) * machine.channel_block * machine.blocks(w.out_channels)
    return block * w.out_planes * w.out_height * w.out_width


def overlaps(workload: Conv2dWorkload) -> bool:
    """Whether windows of neighboring rows of outputs read the same rows."""
    return (workload.kernel_h - 1) * workload.dilation_h + 1 > workload.stride_h


def spans(machine: Machine, tiles: int) -> list[int]:
    """Tiles of a band that are compared: one band, or one, two or four bands for each thread."""
    if machine.cores == 1:
        return [tiles]
    counts = (1, *(count * machine.cores for count in (1, 2, 4)))
    return sorted({-(-tiles // count) for count in counts}, reverse=True)


def band_tiles(rows: int, tile_h: int, bands: int) -> int:
    """Row tiles of one band, if an image of ``rows`` rows is cut into ``bands`` bands.

    A band holds whole tiles, because two threads must not write the same row. If the tiles do not
    divide, the last bands have fewer. The last tile's rows may exceed the image.
    """
    tiles = -(-rows // tile_h)
    return -(-tiles // bands)
