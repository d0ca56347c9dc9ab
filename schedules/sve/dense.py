"""Fully connected layers by scalable vectors of outputs.

A segment has four neighboring outputs, where other layers have a position's channels. Four elements
of the data are repeated in every segment (``ld1rq``), and FMAs multiply by their lanes.
"""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import annotation, parallelize
from tvmconv.schedules.cpu import dense as neon
from tvmconv.tir.annotations import mark_segments
from tvmconv.tvm_api.types import PrimFunc, Schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule ``tvmconv.operators.dense``.

    1. As NEON's rule, but the loop over a tile's vectors, several at once, is outside the inner
       dimension.
    2. Layers without whole vectors of data or outputs use NEON code.
    """
    found = neon.product_of(func)
    if found is None:
        return None
    schedule, anchor, last = found
    _, _, _, segments, lanes, extent = anchor.extents
    if machine.segments < 2 or segments < machine.segments or extent % lanes:
        return neon.rule(func, machine)
    rows = int(annotation(schedule, anchor, "tvmconv.rows"))
    store = schedule.cache_write(anchor.rv, 0, "global")
    split, row, block, vector, lane, k = schedule.get_loops(anchor.rv)
    tiles, row = schedule.split(row, [None, rows])
    k, step = schedule.split(k, [None, lanes])
    schedule.reorder(split, block, tiles, vector, k, step, row, lane)
    parallelize(schedule, [split, block], anchor.work, machine.cores)
    register_tile(schedule, anchor.rv, store, at=vector, reduction=k, tile=(step, row), lane=lane)
    mark_segments(schedule, vector, -(-segments // machine.segments))
    return neon.finish_layer(schedule, last, machine)
