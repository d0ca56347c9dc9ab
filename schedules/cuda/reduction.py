"""One reduction and its element-wise consumers, as one kernel."""

from __future__ import annotations

from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.nest import Block, blocks, inline_injective, inspect
from tvmconv.schedules.cuda.threads import over_threads, share_sums, split_axes, threads_of_sum
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: CudaMachine) -> Schedule | None:
    """Schedule a function of one reduction: a fully connected layer, pooling, a mean.

    1. Element-wise intermediates are inlined.
    2. A thread computes a whole reduction in a register, if reductions are short or enough in
       number.
    3. Otherwise a block computes each result. Its threads read neighboring values and add partial
       sums by shuffles within warps, and by shared memory between warps.
    4. Consumers of the result follow in the same kernel.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func)
    inline_injective(schedule)
    found = blocks(schedule)
    if not 1 <= len(found) <= 2 or not found[0].is_reduction or not all(found[0].extents):
        return None
    if len(found) == 2 and not (found[1].is_spatial and all(found[1].extents)):
        return None
    threads = threads_of_sum(*split_axes(found[0])[2:], machine)
    if threads == 1:
        _by_thread(schedule, found, machine)
    else:
        share_sums(schedule, found[0], found[1].rv if len(found) > 1 else None, threads)
    return schedule


def _by_thread(schedule: Schedule, found: list[Block], machine: CudaMachine) -> None:
    """A thread for each result, with its reduction in a register."""
    sums, last = found[0], found[-1]
    if len(found) == 1:
        # split the loops of the block that stores the result, not of the reduction. Only that
        # block then tests whether a thread has a result
        last = inspect(schedule, schedule.cache_write(sums.rv, 0, "local"))
    else:
        schedule.set_scope(sums.rv, 0, "local")
    loops = list(last.loops) or [schedule.add_unit_loop(last.rv)]
    thread = over_threads(schedule, loops, last.work, machine)
    schedule.compute_at(sums.rv, thread)
