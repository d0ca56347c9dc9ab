"""Reductions of rows of a few elements, and results of such rows, by vectors over several rows."""

from __future__ import annotations

from typing import Any

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import PARALLEL_ELEMENTS, Block, parallelize
from tvmconv.schedules.cpu.partials import SHORTEST
from tvmconv.schedules.cpu.whole_rows import last_axes
from tvmconv.tir.annotations import mark_tail
from tvmconv.tir.general.rewrite import item_bytes, nests_of
from tvmconv.tir.general.short_row_loops import short_row_pieces
from tvmconv.tvm_api.types import Schedule

# elements of such a row: a vector of them is picked from as many vectors
_SHORT_ROW = 8
# elements of few bytes, which LLVM converts one by one in shorter vectors
_FEW_BYTES = 2


def are_short(schedule: Schedule, block: Block, position: int, machine: Machine) -> bool:
    """Whether a vector has one element of each of several rows, which are short.

    Elements are FP16 or smaller, and the rows follow each other. x86 reads such elements as vectors
    and permutes them. Rows of wider elements are faster by themselves.
    """
    row = position - 1
    if machine.architecture != "x86_64" or block.kinds[row:] != "SR" or row < 0:
        return False
    statement = schedule.get(block.rv)
    item = max(item_bytes(str(region.source.dtype)) for region in statement.reads)
    short = SHORTEST <= block.extents[position] <= _SHORT_ROW and item <= _FEW_BYTES
    few = short and block.extents[row] >= machine.lanes
    return few and len(statement.writes) == 1 and last_axes(statement) == (row, position)


def across_rows(schedule: Schedule, block: Block, machine: Machine) -> None:
    """Reduce short rows, one element of each at a time."""
    *spatial, row, reduced = block.loops
    extent = block.extents[-2]
    groups, lane = schedule.split(row, [None, machine.lanes])
    if extent % machine.lanes:
        mark_tail(schedule, groups, machine.lanes, extent % machine.lanes, overlap=True)
    schedule.reorder(*spatial, groups, reduced, lane)
    start = schedule.decompose_reduction(block.rv, reduced)
    for loop in (schedule.get_loops(start)[-1], lane):
        schedule.vectorize(loop)
    schedule.unroll(reduced)
    # a vector that overlaps the previous one is the same thread's
    shared = spatial if extent % machine.lanes else [*spatial, groups]
    if shared:
        parallelize(schedule, shared, block.work, machine.cores)


def loops_over_rows(schedule: Schedule, last: Block, machine: Machine) -> Any:
    """The loops of the results of short rows, of which a vector covers several; None for others."""
    function = schedule.mod["main"]
    place = len(nests_of(function)) - 1
    if not last.is_spatial or not place:
        return None
    parallel = machine.cores > 1 and last.work >= PARALLEL_ELEMENTS
    pieces = short_row_pieces(function, machine.vector_bytes, machine.lanes, parallel)
    return pieces.get(place)
