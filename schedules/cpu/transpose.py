"""Copies that transpose: loads are contiguous along one axis, stores along another axis."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import PARALLEL_ELEMENTS, blocks
from tvmconv.schedules.cpu.elementwise import collapsed
from tvmconv.tir.general.transposed_loops import transposed_loops
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a copy that transposes.

    1. Squares are read as vectors, transposed in registers and stored as vectors. If squares do
       not divide an axis, the last square overlaps the square before it.
    2. Threads share rows of squares.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = collapsed(func)
    found = blocks(schedule)
    if len(found) != 1 or not found[0].is_spatial or not all(found[0].extents):
        return None
    parallel = machine.cores > 1 and found[0].work >= PARALLEL_ELEMENTS
    loops = transposed_loops(schedule.mod["main"], machine.vector_bytes, parallel)
    return None if loops is None else Schedule(loops, enable_check=False)
