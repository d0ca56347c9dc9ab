"""Copies that transpose elements, or short lines of elements."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import (
    PARALLEL_ELEMENTS,
    Block,
    blocks,
    parallelize,
    vectorize_loop,
)
from tvmconv.schedules.cpu.elementwise import collapsed, shared_loops
from tvmconv.tir.general.rewrite import is_static
from tvmconv.tir.general.short_lines import neighbors
from tvmconv.tir.general.transposed_loops import transposed_loops
from tvmconv.tir.general.transposed_tiles import STREAMS
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a copy that transposes.

    1. Loads are contiguous along one axis, stores along another axis: squares are read as vectors,
       transposed in registers and stored as vectors. If squares do not divide an axis, the last
       square overlaps the square before it.
    2. Both are contiguous along one axis of few bytes, a line. Some lines that follow each other in
       the operand are moved before the next ones, while the cache has them.
    3. Threads share rows of squares, or groups of lines.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    if not is_static(func):
        return None
    schedule = collapsed(func)
    found = blocks(schedule)
    if len(found) != 1 or not found[0].is_spatial or not all(found[0].extents):
        return None
    parallel = machine.cores > 1 and found[0].work >= PARALLEL_ELEMENTS
    loops = transposed_loops(schedule.mod["main"], machine.vector_bytes, parallel)
    if loops is not None:
        return Schedule(loops, enable_check=False)
    return schedule if _short_lines(schedule, found[0], machine) else None


def _short_lines(schedule: Schedule, block: Block, machine: Machine) -> bool:
    """Schedule a copy of short lines; False for other blocks."""
    place = neighbors(schedule.get(block.rv))
    if place is None:
        return False
    *outer, line = block.loops
    count = min(STREAMS, block.extents[place])
    outer[place], inner = schedule.split(outer[place], [None, count])
    schedule.reorder(*outer, inner, line)
    extents = [int(schedule.get(loop).extent) for loop in outer]
    shared = outer[: shared_loops(extents, machine)]
    parallelize(schedule, shared, block.work, machine.cores)
    vectorize_loop(schedule, line, machine.lanes)
    return True
