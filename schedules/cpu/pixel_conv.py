"""Convolutions by vectors of pixels."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import (
    Block,
    annotation,
    blocks,
    has_operator,
    parallelize,
    vectorize_loop,
)
from tvmconv.tir.annotations import mark_cases, mark_transpose
from tvmconv.tvm_api.types import LoopRV, PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule ``tvmconv.operators.pixel_conv``.

    1. Threads share groups, tiles of their outputs, and rows.
    2. A tile of outputs and vectors accumulates in registers over all channels and taps. Each
       vector of pixels serves all outputs of the tile, and each weight serves all vectors.
    3. The padded copy of a group's image is made for its first tile, so that it stays in the
       nearest cache. A layer without groups is copied first.
    4. If tiles do not divide a row, whole vectors are accumulated and stored by way of memory.
    """
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    found = {block.name: block for block in blocks(schedule)}
    anchor = found.get("pixel_conv")
    if anchor is None or not has_operator(schedule, anchor, "pixel_conv"):
        return None
    output, padded = found["output"], found.get("padded")
    vectors, lanes = int(annotation(schedule, anchor, "tvmconv.vectors")), machine.lanes
    groups, finished = anchor.extents[1], found.get("finished")
    store = output.rv
    if finished is not None:
        store = finished.rv
    elif output.extents[4] % (vectors * lanes):
        store = schedule.cache_write(anchor.rv, 0, "global")
    n, g, t, j, y, x, *reduction = schedule.get_loops(anchor.rv)
    tiles, vector, lane = schedule.split(x, [None, vectors, lanes])
    schedule.reorder(n, g, t, y, tiles, *reduction, j, vector, lane)
    shared = groups > 1 and padded is not None
    outer = [n, g] if shared else [n, g, t]
    first = parallelize(schedule, outer, anchor.work, machine.cores)
    if padded is not None:
        _copy(schedule, padded, first if shared else None, machine)
    mark_cases(schedule, *([t] if shared else []), tiles)
    tile = (j, vector)
    register_tile(
        schedule, anchor.rv, store, at=tiles, reduction=reduction[0], tile=tile, lane=lane
    )
    if finished is not None:
        schedule.reverse_compute_at(output.rv, tiles, preserve_unit_loops=True)
        *_, x, phase = schedule.get_loops(output.rv)
        schedule.reorder(phase, x)
        vectors_ = vectorize_loop(schedule, x, lanes)
        if vectors_ is not None:
            schedule.reorder(vectors_, phase)
        if output.extents[-1] == 2:
            # two strided stores in succession, which JoinedStores makes one
            schedule.unroll(phase)
        else:
            mark_transpose(schedule, phase)
    elif store is not output.rv:
        schedule.reverse_compute_at(output.rv, tiles, preserve_unit_loops=True)
        vectorize_loop(schedule, schedule.get_loops(output.rv)[-1], lanes)
    return schedule


def _copy(schedule: Schedule, padded: Block, at: LoopRV | None, machine: Machine) -> None:
    """Zeros everywhere, then the image's rows; they are vectors if pixels are not strided."""
    if at is not None:
        schedule.compute_at(padded.rv, at, preserve_unit_loops=True)
    *outer, _, _ = schedule.get_loops(padded.rv)
    if at is None:
        parallelize(schedule, outer[:2], padded.work, machine.cores)
    if padded.extents[3] == 1:
        zeros = schedule.decompose_padding(padded.rv, schedule.get_loops(padded.rv)[-3])
        for block in (zeros, padded.rv):
            vectorize_loop(schedule, schedule.get_loops(block)[-1], machine.lanes)
