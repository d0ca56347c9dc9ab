"""Maps loops to blocks and threads."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.nest import Block
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# threads of a block with enough work for all multiprocessors, and with less work
_MOST, _FEWEST = 256, 64
# values that one thread of a reduction sums by itself before threads share their sums
_OWN_SUM = 4


def over_threads(
    schedule: Schedule, loops: Sequence[LoopRV], count: int, machine: CudaMachine
) -> LoopRV:
    """Distribute iterations over threads, neighbors to neighbors; returns the threads' loop.

    The nested ``loops`` have ``count`` iterations together, outermost first. Few iterations use
    smaller blocks, so that more multiprocessors get some.
    """
    threads = _MOST
    while threads > _FEWEST and count < threads * machine.multiprocessors:
        threads //= 2
    return bind_threads(schedule, loops, threads)


def bind_threads(schedule: Schedule, loops: Sequence[LoopRV], threads: int) -> LoopRV:
    """:func:`over_threads` with blocks of so many threads."""
    fused = schedule.fuse(*loops) if len(loops) > 1 else loops[0]
    block, thread = schedule.split(fused, [None, threads])
    schedule.bind(block, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return thread


def check_threads(
    workload: Conv2dWorkload, machine: CudaMachine, threads: int, knob: str = "threads"
) -> None:
    """Raise :class:`ConfigError` unless threads are whole warps within the limit of a block."""
    if threads % machine.warp or not machine.warp <= threads <= machine.threads_block:
        raise ConfigError(
            f"{knob}={threads} of {workload} is not possible. Expected a multiple of "
            f"{machine.warp} up to {machine.threads_block}. Change {knob}."
        )


def spatial_kernel(schedule: Schedule, block: Block, machine: CudaMachine) -> None:
    """A kernel for a block without reduction: a thread for each value."""
    loops = block.loops or (schedule.add_unit_loop(block.rv),)
    over_threads(schedule, loops, block.work, machine)


def threads_of_sum(outputs: int, terms: int, machine: CudaMachine) -> int:
    """How many threads share one reduction of so many terms: 1, or whole warps.

    More threads share a result if the results do not fill the GPU.
    """
    if terms < machine.warp:
        return 1
    resident = machine.multiprocessors * machine.threads
    # a thread for each result fills the GPU, and reads as much
    if outputs >= resident:
        return 1
    threads = machine.warp
    while threads < _MOST and 2 * threads * _OWN_SUM <= terms and 2 * threads * outputs <= resident:
        threads *= 2
    return threads


def split_axes(block: Block) -> tuple[list[LoopRV], list[LoopRV], int, int]:
    """Spatial and reduction loops of a block, and the iterations of each."""
    parts = []
    for kind in "SR":
        places = [place for place, axis in enumerate(block.kinds) if axis == kind]
        loops = [block.loops[place] for place in places]
        parts.append((loops, prod(block.extents[place] for place in places)))
    (spatial, outputs), (reduced, terms) = parts
    return spatial, reduced, outputs, terms


def block_for_each(schedule: Schedule, block: Block, threads: int) -> LoopRV:
    """A block for each result of a reduction, whose threads share it; returns the blocks' loop."""
    spatial, reduced, _outputs, _terms = split_axes(block)
    schedule.reorder(*spatial, *reduced)
    terms = schedule.fuse(*reduced) if len(reduced) > 1 else reduced[0]
    _, thread = schedule.split(terms, [None, threads])
    if not spatial:
        spatial = [schedule.add_unit_loop(schedule.get_loops(block.rv)[0])]
    results = schedule.fuse(*spatial) if len(spatial) > 1 else spatial[0]
    schedule.bind(results, "blockIdx.x")
    schedule.bind(thread, "threadIdx.x")
    return results


def keep_in_registers(schedule: Schedule, sums: BlockRV) -> None:
    """Keep the results of a reduction in registers: also the position of an extreme."""
    for number in range(len(schedule.get(sums).writes)):
        schedule.set_scope(sums, number, "local")


def share_sums(schedule: Schedule, sums: Block, rest: BlockRV | None, threads: int) -> None:
    """A block of so many threads for each result, followed by its consumers, if any.

    Threads read neighboring values and add partial sums by shuffles within warps, and by shared
    memory between warps.
    """
    block = block_for_each(schedule, sums, threads)
    if rest is None:
        return
    keep_in_registers(schedule, sums.rv)
    schedule.reverse_compute_at(rest, block, preserve_unit_loops=True)
    _, *inner = schedule.get_loops(rest)
    values = schedule.fuse(*inner) if len(inner) > 1 else inner[0]
    _, thread = schedule.split(values, [None, threads])
    schedule.bind(thread, "threadIdx.x")
