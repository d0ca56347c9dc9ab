"""Loops over phases of kernels; see :mod:`tvmconv.algorithms.winograd.polyphase`."""

from __future__ import annotations

from tvmconv.algorithms.winograd.polyphase import phase_count, phases
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.tir.annotations import mark_bound, mark_cases
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule


def product_loops(schedule: Schedule, block: BlockRV) -> list[LoopRV]:
    """The loops of Winograd's GEMM, with the reduction loops between lanes and channels.

    Such a kernel has two reduction loops: over phases of rows, and over everything else. Each
    ends where filters are zero.
    """
    loops = list(schedule.get_loops(block))[-len(schedule.get(block).iter_vars) :]
    for loop in loops[4:-1] if len(loops) > 6 else ():
        mark_bound(schedule, loop)
    return loops


def phase_loops(schedule: Schedule, blocks: LoopRV, workload: Conv2dWorkload) -> list[LoopRV]:
    """Split a loop over reduction blocks into loops over phases and over blocks of each phase.

    Phases read different rows and columns, and have different predicates at the borders. Each phase
    of a strided kernel is separate code. Parts of a long kernel are too many for that.
    """
    if phase_count(workload) == 1:
        return [blocks]
    tall, wide = phases(workload)
    *passes, inner = schedule.split(blocks, [tall.count, wide.count, None])
    if not (tall.is_cut or wide.is_cut):
        mark_cases(schedule, *passes)
    return [*passes, inner]
