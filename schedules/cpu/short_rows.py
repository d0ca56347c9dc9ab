"""Element-wise functions of rows shorter than vectors: vectors cover several rows."""

from __future__ import annotations

from tvmconv.core.stored_types import numpy_type
from tvmconv.machines.record import Machine
from tvmconv.operators.lookup import LOOKUP
from tvmconv.schedules.common.nest import PARALLEL_ELEMENTS, blocks, inline_injective
from tvmconv.schedules.cpu.elementwise import collapsed, spatial_block
from tvmconv.tir.general.collapse_axes import collapse_axes
from tvmconv.tir.general.cut_axes import cut_axes
from tvmconv.tir.general.integer_moves import integer_moves
from tvmconv.tir.general.rewrite import is_static, with_nests
from tvmconv.tir.general.short_row_loops import short_row_loops, short_row_pieces
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a function whose operands prevent that short rows become one axis.

    1. A vector covers several rows of the result. Operands that are repeated along rows, or along
       columns, are read as vectors, and their lanes are permuted.
    2. Padding of rows, and the operands that rows are joined from, are lanes of the same vectors.
       Only long axes are cut into pieces.
    3. Threads share groups of rows.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    if not is_static(func):
        return None
    schedule = collapsed(func)
    found = blocks(schedule)
    if not all(block.is_spatial and all(block.extents) for block in found):
        return None
    if any(LOOKUP in schedule.get(block.rv).annotations for block in found):
        return None
    if len(found) > 1:
        return _pieces(func, machine)
    parallel = machine.cores > 1 and found[0].work >= PARALLEL_ELEMENTS
    loops = short_row_loops(schedule.mod["main"], machine.vector_bytes, parallel)
    return None if loops is None else Schedule(loops, enable_check=False)


def _pieces(func: PrimFunc, machine: Machine) -> Schedule | None:
    """A schedule of pieces, of which rows that are padded or joined are whole."""
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    inline_injective(schedule)
    found = blocks(schedule)
    if len(found) != 1:
        return None
    (result,) = schedule.get(found[0].rv).writes
    lanes = machine.vector_bytes // numpy_type(str(result.source.dtype)).itemsize
    parallel = machine.cores > 1 and found[0].work >= PARALLEL_ELEMENTS
    for longest in (2 * lanes, lanes):
        cut = integer_moves(collapse_axes(cut_axes(schedule.mod["main"], longest)))
        pieces = short_row_pieces(cut, machine.vector_bytes, longest, parallel)
        if pieces:
            whole = Schedule(cut, enable_check=False)
            for number, block in enumerate(blocks(whole)):
                if number not in pieces:
                    spatial_block(whole, block, machine)
            return Schedule(with_nests(whole.mod["main"], pieces), enable_check=False)
    return None
