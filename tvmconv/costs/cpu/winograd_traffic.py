"""The bytes that Winograd convolution moves, also between threads."""

from __future__ import annotations

from tvmconv.algorithms.winograd.polyphase import phase_count, phases
from tvmconv.algorithms.winograd.tiles import (
    Tiling,
    busiest,
    product_step,
    summed_blocks,
    summed_products,
    workspace_planes,
)
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import constants
from tvmconv.costs.cpu.partition import Partition, crossing_cycles, memory_rate
from tvmconv.machines.record import Machine

# Bytes that weights of a single register tile are prefetched ahead. Memory's latency is about 500
# cycles on Zen 5, and small tiles consume 16 to 24 bytes a cycle.
AHEAD = 12288


def weight_bytes(workload: Conv2dWorkload, machine: Machine, tiles: Tiling) -> int:
    """Bytes of the transformed weights."""
    (_, short), _ = workspace_planes(workload, machine)
    blocks = machine.blocks(workload.out_channels)
    return short * summed_products(tiles, machine) * blocks * machine.channel_block**2


def scratch_bytes(workload: Conv2dWorkload, machine: Machine, tiles: Tiling) -> int:
    """Bytes of the transformed values and of the products of one tile."""
    (_, short), (_, size) = workspace_planes(workload, machine)
    values = short * summed_blocks(workload, machine)
    values += size * machine.blocks(workload.out_channels)
    return tiles.products * machine.channel_block * values


def image_bytes(workload: Conv2dWorkload, machine: Machine) -> tuple[int, int]:
    """Bytes of input and output of one image; each phase reads a part of the pixels."""
    w, lanes = workload, machine.channel_block
    pixels = w.in_height * w.in_width // phase_count(w)
    read = itemsize(w.types.data) * lanes * summed_blocks(w, machine) * pixels
    written = itemsize(w.types.output) * lanes * machine.blocks(w.out_channels)
    return read, written * w.out_height * w.out_width


def gap_cycles(workload: Conv2dWorkload, machine: Machine, tiles: Tiling, kr: int) -> float:
    """Cycles of waiting for weights after omitted ones, if a single register tile uses each.

    A phase without the last tap omits the last products, whose weights are zeros in memory.
    Prefetches ``AHEAD`` bytes ahead read these zeros, and the weights after them arrive on demand.
    ``kr`` are the output blocks of a register tile.
    """
    tall, wide = phases(workload)
    fewer_rows, fewer_columns = tall.whole < tall.count, wide.whole < wide.count
    rows, columns = tiles.vertical.n, tiles.horizontal.n
    gaps = (columns - fewer_columns) * fewer_rows
    if fewer_columns:
        gaps += (rows - fewer_rows) * tall.count + fewer_rows * tall.whole
    (blocks, size), _ = workspace_planes(workload, machine)
    phase = size * machine.channel_block**2 * kr * blocks // phase_count(workload)
    panels = -(-machine.blocks(workload.out_channels) // kr)
    return gaps * panels * min(AHEAD, phase) / (constants.ON_DEMAND * memory_rate(machine))


def busiest_share(machine: Machine, tiles: Tiling, config: Config) -> float:
    """Work of the thread with the most products, over the mean, if stages are shared by products.

    Threads get as many register tiles of ``kr`` output blocks.
    """
    panels = -(-machine.blocks(tiles.workload.out_channels) // config.int("kr"))
    step = product_step(tiles, config, machine)
    return busiest(tiles.work, machine.cores, panels, step)


def of_threads(
    workload: Conv2dWorkload, machine: Machine, tiles: Tiling, tasks: int, *, fused: bool
) -> dict[str, float]:
    """Cycles of additional weights, and of bytes that cross cores, of some parallel tasks.

    Regions are bands of rows, each of which reads all weights. Their workspace is where the last
    layer's was, of which other cores wrote a part. Stages are shared by channels, by products, and
    by channels, so that each stage reads what other cores wrote.
    """
    if fused:
        regions = Partition(machine, 1, tasks, 1, 1)
        again = regions.weights_again(weight_bytes(workload, machine, tiles))
        edges = regions.edge_cycles(True, summed_blocks(workload, machine))
        values = scratch_bytes(workload, machine, tiles) * tiles.count / tasks
        reused = crossing_cycles(machine, values * (1 - 1 / machine.cores))
        return {"weights": again, "crossing": edges + reused}
    stages = Partition(machine, 1, 1, tasks, 1)
    read, written = (workload.out_planes * size for size in image_bytes(workload, machine))
    scratch = scratch_bytes(workload, machine, tiles) * tiles.count
    crossing = stages.crossing(read + scratch, written, channelwise=True)
    return {"weights": 0.0, "crossing": crossing_cycles(machine, crossing)}
