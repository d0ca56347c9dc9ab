"""INT8 direct convolution by scalable vectors of four positions in a segment.

Loops, outermost first:

1. image, channel block, phase and row of the copy, which NEON code fills: parallel;
2. image, group of output blocks, band of positions: parallel;
3. four positions: the pass ``VectorizePixels`` computes some vectors of them at once;
4. kernel row, kernel column, input block: the reduction;
5. position of four and output block of the register tile, unrolled; lanes, one segment. A step is
   ``sdot`` by the dword of one lane of each segment.

Then rows are copied to the output without their surplus columns. Where tiles store accumulators,
NEON code computes the output from them instead, four columns at once.
"""

from __future__ import annotations

from tvmconv.algorithms.integer.padded_rows import (
    COPY,
    GROUP,
    PaddedRows,
    obstacle,
    rounds_in_tiles,
)
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.scalable.padded_rows import MOST_VECTORS, PaddedRowsModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import dword_steps, register_tile
from tvmconv.schedules.common.nest import vectorize_loop
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_segments
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

# bytes of a vector that copies rows to the output
_COPIED = 16


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Raise :class:`ConfigError` for a layer without this code, or for a tile that does not fit."""
    oc, vectors = config.int("oc"), config.int("vectors")
    tile = f"tile oc={oc} vectors={vectors} of {workload}"
    if reason := obstacle(workload, machine):
        raise ConfigError(f"{tile} is not possible: {reason}. Set vectors=0 for NEON code.")
    model, rows = PaddedRowsModel(workload, machine), config.int("rows")
    others = [config.int(name) for name in ("oh", "ow", "wide")]
    if others != [1, 1, 0] or not 0 < vectors <= MOST_VECTORS or oc < 1:
        raise ConfigError(
            f"{tile} has wrong sizes: {config}. Expected oc of 1 or more, 1 to {MOST_VECTORS} "
            "vectors, and oh=1 ow=1 wide=0, which are for NEON code. Change them."
        )
    if rows < 0 or (rows and model.segments % rows):
        raise ConfigError(
            f"{tile} has rows={rows}. Expected a divisor of its {model.segments} segments of four "
            "positions. Set rows=0."
        )
    check_registers(machine, model.registers(oc, vectors), tile)


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the blocks of :func:`tvmconv.algorithms.integer.padded_rows.compute` in place."""
    block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
    rows, in_tiles = PaddedRows(workload), rounds_in_tiles(workload)
    if not rows.is_direct:
        _copy(schedule)
    band = config.int("rows") or rows.positions // GROUP
    if in_tiles:
        _unflatten(schedule, rows)
        n, kb, position, lane, *reduction = schedule.get_loops(block)
        bands, four, position = schedule.split(position, [None, band, GROUP])
    else:
        _finish(schedule, output, rows)
        output = schedule.cache_write(block, 0, "local")
        n, kb, position, four, lane, *reduction = schedule.get_loops(block)
        bands, four = schedule.split(four, [None, band])
    r, s, cb, c = reduction
    groups, kb_tile = schedule.split(kb, [None, config.int("oc")])
    cb, dwords = dword_steps(schedule, cb, machine, multiply_of(workload, machine))
    tile = (*dwords, c, position, kb_tile)
    schedule.reorder(n, groups, bands, four, r, s, cb, *tile, lane)
    mark_parallel(schedule, n, groups, bands)
    mark_cases(schedule, groups)
    register_tile(schedule, block, output, at=four, reduction=r, tile=tile, lane=lane)
    mark_segments(schedule, four, config.int("vectors"))


def _copy(schedule: Schedule) -> None:
    """The copy of the image, whose rows threads share."""
    n, cb, phase, row, column, lane = schedule.get_loops(schedule.get_sblock(COPY))
    schedule.vectorize(lane)
    mark_parallel(schedule, n, cb, phase, row)
    mark_cases(schedule, row, column)


def _unflatten(schedule: Schedule, rows: PaddedRows) -> None:
    """The copy of rows to the output, where they have surplus columns."""
    unflatten = schedule.get_sblock("unflatten")
    if rows.is_direct:
        schedule.reverse_compute_inline(unflatten)
        return
    n, kb, row, column, lane = schedule.get_loops(unflatten)
    vectorize_loop(schedule, schedule.fuse(column, lane), _COPIED)
    mark_parallel(schedule, n, kb, row)


def _finish(schedule: Schedule, output: BlockRV, rows: PaddedRows) -> None:
    """The output of accumulators in memory: columns of a row, or of all rows of equal length."""
    n, kb, row, column, lane = schedule.get_loops(output)
    threads: tuple[LoopRV, ...] = (n, kb, row)
    if rows.pitch == rows.workload.out_width:
        threads, column = (n, kb), schedule.fuse(row, column)
    column, tile = schedule.split(column, [None, GROUP])
    schedule.unroll(tile)
    schedule.vectorize(lane)
    mark_parallel(schedule, *threads)
    mark_cases(schedule, column)
