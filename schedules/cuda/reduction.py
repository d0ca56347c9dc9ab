"""One reduction and its element-wise consumers, as one kernel."""

from __future__ import annotations

from typing import Any

from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.nest import Block, blocks, inline_injective, inspect
from tvmconv.schedules.cuda.threads import (
    keep_in_registers,
    over_threads,
    share_sums,
    split_axes,
    threads_of_sum,
)
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import nodes_of
from tvmconv.tvm_api.types import BlockRV, PrimFunc, Schedule


def rule(func: PrimFunc, machine: CudaMachine) -> Schedule | None:
    """Schedule a function of one reduction: a fully connected layer, pooling, a mean.

    1. Element-wise intermediates are inlined.
    2. A thread computes a whole reduction in a register, if reductions are short or enough in
       number.
    3. Otherwise a block computes each result. Its threads read neighboring values and add partial
       sums by shuffles within warps, and by shared memory between warps.
    4. Consumers of the result follow in the same kernel. A block's result may be read by its own
       values only, so a consumer that also pads, shifts or concatenates is not for this rule.
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
    elif len(found) == 1:
        share_sums(schedule, found[0], None, threads)
    elif _reads_own_sum(schedule, found[1].rv, found[0].rv):
        share_sums(schedule, found[0], found[1].rv, threads)
    else:
        return None
    return schedule


def _reads_own_sum(schedule: Schedule, consumer: BlockRV, sums: BlockRV) -> bool:
    """Whether every value of a consumer reads the result at its own place."""
    from tvmconv.tvm_api import ir, tirx

    results = [region.source for region in schedule.get(sums).writes]
    body = schedule.get(consumer).body

    def loads(node: Any) -> list[Any]:
        found = nodes_of(node, ir.TensorLoad)
        return [load for load in found if any(map(load.source.same_as, results))]

    shifted = any(
        not isinstance(index, ir.Var | tirx.IntImm)
        for load in loads(body)
        for index in load.indices
    )
    choices = [(node.condition, node) for node in nodes_of(body, tirx.Select)]
    choices += [(node.args[0], node) for node in nodes_of(body, ir.Call) if is_select(node)]
    # a condition on places, not on values
    partial = any(loads(node) and not nodes_of(test, ir.TensorLoad) for test, node in choices)
    return not (shifted or partial)


def _by_thread(schedule: Schedule, found: list[Block], machine: CudaMachine) -> None:
    """A thread for each result, with its reduction in a register."""
    sums, last = found[0], found[-1]
    if len(found) == 1:
        # split the loops of the block that stores the result, not of the reduction. Only that
        # block then tests whether a thread has a result
        last = inspect(schedule, schedule.cache_write(sums.rv, 0, "local"))
    else:
        keep_in_registers(schedule, sums.rv)
    loops = list(last.loops) or [schedule.add_unit_loop(last.rv)]
    thread = over_threads(schedule, loops, last.work, machine)
    schedule.compute_at(sums.rv, thread)
