"""Copies that transpose: the source is contiguous along one axis, the result along another."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import PARALLEL_ELEMENTS, blocks
from tvmconv.schedules.cpu.elementwise import collapsed
from tvmconv.tir.general.transposed_loops import transposed_loops
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a copy that transposes.

    1. Squares are read as vectors, transposed in registers and stored as vectors. Where squares
       do not divide an axis, the last one overlaps the one before it.
    2. Rows of squares are shared between the threads.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = collapsed(func)
    found = blocks(schedule)
    if len(found) != 1 or not found[0].is_spatial or not all(found[0].extents):
        return None
    parallel = machine.cores > 1 and found[0].work >= PARALLEL_ELEMENTS
    loops = transposed_loops(schedule.mod["main"], machine.vector_bytes, parallel)
    return None if loops is None else Schedule(loops, enable_check=False)
