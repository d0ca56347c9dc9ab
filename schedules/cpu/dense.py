"""Fully connected layers with packed weights."""

from __future__ import annotations

from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import Block, annotation, blocks, has_operator, parallelize
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.tvm_api.types import PrimFunc, Schedule


def product_of(func: PrimFunc) -> tuple[Schedule, Block, Block] | None:
    """A schedule of a fully connected layer, its product and its last block; None for others."""
    from tvmconv.tvm_api.s_tir import Schedule

    schedule = Schedule(func, enable_check=False)
    found = blocks(schedule)
    product = next((b for b in found if has_operator(schedule, b, "dense")), None)
    return (schedule, product, found[1]) if product and len(found) == 2 else None


def finish_layer(schedule: Schedule, last: Block, machine: Machine) -> Schedule:
    """Schedule the last block, whose handle a register tile has replaced."""
    for block in blocks(schedule):
        if block.name == last.name:
            spatial_block(schedule, block, machine)
    return schedule


def rule(func: PrimFunc, machine: Machine) -> Schedule | None:
    """Schedule ``tvmconv.operators.dense``.

    1. One register tile (rows x vectors of outputs) covers the whole inner dimension.
    2. Threads share tiles of outputs, and splits of the inner dimension. Each weight is read by one
       thread only.
    3. A single row reads its weights once, at memory bandwidth. Several positions of the inner
       dimension are read alternately, because prefetchers of one stream pause at each page boundary
       (measured: 4 streams 11.9 GB/s, one stream 10.8 GB/s).
    4. If FMAs multiply by lane, the inner dimension is split by vectors of data, with unrolled
       steps.
    5. The epilogue is a separate pass over the few results, because the last tile may be wider than
       the output.
    """
    found = product_of(func)
    if found is None:
        return None
    schedule, anchor, last = found
    rows = int(annotation(schedule, anchor, "tvmconv.rows"))
    store = schedule.cache_write(anchor.rv, 0, "global")
    split, row, block, vectors, lane, k = schedule.get_loops(anchor.rv)
    tiles, row = schedule.split(row, [None, rows])
    extent = int(schedule.get(k).extent)
    steps = machine.lanes if machine.code.by_lane and extent % machine.lanes == 0 else 1
    streams = next(s for s in (4, 2, 1) if (rows == steps == 1 and extent % s == 0) or s == 1)
    stream, k, step = schedule.split(k, [streams, None, steps])
    schedule.reorder(split, block, tiles, k, stream, step, row, vectors, lane)
    parallelize(schedule, [split, block], anchor.work, machine.cores)
    register_tile(
        schedule,
        anchor.rv,
        store,
        at=tiles,
        reduction=k,
        tile=(stream, step, row, vectors),
        lane=lane,
    )
    return finish_layer(schedule, last, machine)
