"""A kernel for each block of a function: the fallback rule."""

from __future__ import annotations

from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.nest import Block, blocks, inline_injective
from tvmconv.schedules.cuda.threads import (
    block_for_each,
    over_threads,
    spatial_kernel,
    split_axes,
    threads_of_sum,
)
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: CudaMachine) -> Schedule | None:
    """Schedule a function of any element-wise blocks and reductions, such as softmax.

    1. Element-wise intermediates are inlined.
    2. Each remaining block is a kernel. Kernels exchange results in global memory, which
       :mod:`tvmconv.tir.cuda.workspace_parameters` makes part of the arena.
    3. Element-wise blocks have a thread for each value. Reductions have a thread or a block of
       threads each, as in :mod:`tvmconv.schedules.cuda.reduction`.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func)
    inline_injective(schedule)
    found = blocks(schedule)
    if not all((b.is_spatial or b.is_reduction) and all(b.extents) for b in found):
        return None
    for block in found:
        if block.is_spatial:
            spatial_kernel(schedule, block, machine)
        else:
            _reduction_kernel(schedule, block, machine)
    return schedule


def _reduction_kernel(schedule: Schedule, block: Block, machine: CudaMachine) -> None:
    spatial, reduced, outputs, terms = split_axes(block)
    threads = threads_of_sum(outputs, terms, machine)
    if threads > 1:
        block_for_each(schedule, block, threads)
        return
    schedule.reorder(*spatial, *reduced)
    if not spatial:
        spatial = [schedule.add_unit_loop(schedule.get_loops(block.rv)[0])]
    over_threads(schedule, spatial, outputs, machine)
