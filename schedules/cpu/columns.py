"""Softmax and log-softmax along an axis before the last: neighboring columns are vectors."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, has_operator, parallelize, vectorize_loop
from tvmconv.schedules.cpu.reduction import reduce_columns
from tvmconv.tir.general.collapse_axes import collapse_axes
from tvmconv.tvm_api.types import PrimFunc, Schedule

_FLOAT_BYTES = 4


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a softmax of many columns, each along the axis.

    1. Axes before the softmax axis become one axis, and so do the axes after it.
    2. All passes over some columns follow each other while these columns are in L2.
    3. Threads share groups of columns. Neighboring columns are vectors.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    if not has_operator(schedule, blocks(schedule)[-1], "softmax", "log_softmax"):
        return None
    schedule = Schedule(collapse_axes(func), enable_check=False)
    *passes, last = blocks(schedule)
    if not passes or not all(_fits(block, last) for block in passes):
        return None
    *outer, length, columns = last.loops
    width = _width(last.extents[-2], last.extents[-1], machine)
    if width < last.extents[-1]:
        group, columns = schedule.split(columns, [None, width])
        schedule.reorder(*outer, group, length, columns)
        outer.append(group)
    if outer:
        at = parallelize(schedule, outer, last.work, machine.cores)
        for block in reversed(passes):
            schedule.compute_at(block.rv, at, preserve_unit_loops=True)
    vectorize_loop(schedule, columns, machine.lanes)
    for block in passes:
        if block.is_reduction:
            *_, column, step = schedule.get_loops(block.rv)
            reduce_columns(schedule, block.rv, column, [step], machine)
        else:
            vectorize_loop(schedule, schedule.get_loops(block.rv)[-1], machine.lanes)
    return schedule


def _fits(block: Block, last: Block) -> bool:
    """Whether a pass is over the columns of the last block, step by step or once."""
    *outer, length, columns = last.extents if len(last.extents) > 1 else (0, 0)
    if block.is_reduction:
        return block.extents == (*outer, columns, length) and block.kinds.endswith("SR")
    return block.is_spatial and block.extents in ((*outer, length, columns), (*outer, columns))


def _width(length: int, columns: int, machine: Machine) -> int:
    """Columns of a group: all that fit into half of L2, else a divisor that does."""
    most = machine.l2_bytes // 2 // (3 * _FLOAT_BYTES * length)
    if columns <= most:
        return columns
    vectors = range(max(most // machine.lanes, 1), 0, -1)
    found = (v * machine.lanes for v in vectors if columns % (v * machine.lanes) == 0)
    return next(found, columns)
