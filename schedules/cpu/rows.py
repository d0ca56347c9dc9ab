"""Softmax and log-softmax along the last axis, where rows are independent."""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.nest import Block, blocks, has_operator, parallelize, vectorize_loop
from tvmconv.tir.general.axes import contiguous_axis
from tvmconv.tvm_api.types import BlockRV, Expr, LoopRV, PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule a softmax over the last, contiguous axis, by vectors of fixed length."""
    return by_vectors(func, machine, lambda extent: _vector_width(extent, machine.lanes))


def by_vectors(
    func: PrimFunc,
    machine: Machine,
    width_of: Callable[[int], int],
    mark: Callable[[Schedule, LoopRV], None] = lambda schedule, vectors: None,
) -> Schedule | None:
    """Schedule a softmax over the last axis.

    1. Each reduction along the row becomes a vector of partial results and a short combination.
    2. All passes over one row follow each other while the row is in L1.
    3. Threads share rows; passes are vectorized.

    ``width_of`` gives the elements of a vector, a divisor of the row's elements, or 0 without one.
    ``mark`` is called for each loop over the vectors of a row.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    found = blocks(schedule)
    last = found[-1]
    if not has_operator(schedule, last, "softmax", "log_softmax"):
        return None
    axis = contiguous_axis(schedule.get(found[0].rv))
    if axis is not None and not _is_reduced(schedule, found[0], axis):
        return None
    depth = len(last.loops) - 1
    outer = last.extents[:depth]
    if depth < 1 or not all(_is_row_pass(block, outer) for block in found):
        return None
    width = width_of(last.extents[-1])
    if not width:
        return None
    passes: list[tuple[BlockRV, bool]] = []
    for block in found[:-1]:
        if block.is_reduction:
            _, lane = schedule.split(block.loops[-1], [None, width])
            passes.append((schedule.rfactor(lane, depth), True))
        passes.append((block.rv, False))
    rows = parallelize(schedule, list(last.loops[:depth]), last.work, machine.cores)
    _vectors(schedule, last.loops[-1], width, mark)
    for rv, _ in reversed(passes):
        schedule.compute_at(rv, rows, preserve_unit_loops=True)
    for rv, partial in passes:
        _vectorize_pass(schedule, rv, partial, width, mark)
    return schedule


def _vector_width(extent: int, lanes: int) -> int:
    """The widest divisor of a row that makes whole or half vectors, 0 without such a divisor.

    A divisor leaves no remainder that TVM's ``compute_at`` would guard.
    """
    widths = range(4 * lanes, lanes // 2 - 1, -(lanes // 2))
    return next((w for w in widths if extent % w == 0 and extent > w), 0)


def _is_reduced(schedule: Schedule, block: Block, var: Expr) -> bool:
    axes = schedule.get(block.rv).iter_vars
    return any(axis.var.same_as(var) and int(axis.iter_type) == 2 for axis in axes)


def _is_row_pass(block: Block, outer: tuple[int, ...]) -> bool:
    depth = len(outer)
    same = block.extents[:depth] == outer and block.kinds[:depth] == "S" * depth
    return same and block.kinds[depth:] in ("", "S", "R")


def _vectors(
    schedule: Schedule, loop: LoopRV, width: int, mark: Callable[[Schedule, LoopRV], None]
) -> None:
    vectors = vectorize_loop(schedule, loop, width)
    if vectors is not None:
        mark(schedule, vectors)


def _vectorize_pass(
    schedule: Schedule,
    rv: BlockRV,
    partial: bool,
    width: int,
    mark: Callable[[Schedule, LoopRV], None],
) -> None:
    loops = list(schedule.get_loops(rv))
    if partial:
        # compute_at made the order: the rows' loop, the vector, the chunks
        lane, chunks = loops[1], loops[-1]
        schedule.reorder(chunks, lane)
        start = schedule.decompose_reduction(rv, chunks)
        schedule.vectorize(schedule.get_loops(start)[-1])
        schedule.vectorize(lane)
        mark(schedule, chunks)
        return
    spatial = all(int(axis.iter_type) == 0 for axis in schedule.get(rv).iter_vars)
    if spatial and int(schedule.get(loops[-1]).extent) > 1:
        _vectors(schedule, loops[-1], width, mark)
