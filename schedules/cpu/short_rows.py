"""Element-wise functions of rows shorter than vectors: vectors cover several rows."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.operators.lookup import LOOKUP
from tvmconv.schedules.common.nest import PARALLEL_ELEMENTS, blocks
from tvmconv.schedules.cpu.elementwise import collapsed
from tvmconv.tir.general.short_row_loops import short_row_loops
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a function whose operands prevent that short rows become one axis.

    1. A vector covers several rows of the result. Operands that are repeated along rows, or along
       columns, are read as vectors, and their lanes are permuted.
    2. Threads share groups of rows.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = collapsed(func)
    found = blocks(schedule)
    if len(found) != 1 or not found[0].is_spatial or not all(found[0].extents):
        return None
    if LOOKUP in schedule.get(found[0].rv).annotations:
        return None
    parallel = machine.cores > 1 and found[0].work >= PARALLEL_ELEMENTS
    loops = short_row_loops(schedule.mod["main"], machine.vector_bytes, parallel)
    return None if loops is None else Schedule(loops, enable_check=False)
