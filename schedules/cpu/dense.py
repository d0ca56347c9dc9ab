"""Fully connected layers with packed weights, for every CPU family.

1. One register tile (rows x vectors of outputs) covers the inner dimension, or a part of it.
2. Threads share tiles of outputs, so that one thread reads each weight. Or they share tiles of
   rows, which a thread computes with all weights. They also share parts of the inner dimension.
3. A single row reads its weights once, at memory bandwidth. It reads several positions of the inner
   dimension alternately.
4. If FMAs multiply by lane, the inner dimension is split by vectors of data, with unrolled steps.
5. The epilogue is computed in registers, and the last tiles of rows and outputs are separate code.
   If parts of the inner dimension are summed, it is a separate pass over their sums.
6. The tiles of rows that use one panel of weights prefetch the next panel.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import dense
from tvmconv.costs.cpu.tile_knobs import prefetch_flag
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import inspect, parallelize, pays_threads
from tvmconv.schedules.cpu.elementwise import spatial_block
from tvmconv.tir.annotations import mark_cases, mark_panel, mark_parallel
from tvmconv.tvm_api.types import LoopRV, Schedule


class DenseSchedule(ConvSchedule[Machine]):
    """A register tile over the whole inner dimension, or over parts of it."""

    KNOBS = Knobs(
        (
            Knob("rows", "rows of the register tile", dense.row_values),
            Knob(
                "width",
                "vectors of outputs of the register tile and of a block of packed weights",
                dense.vector_values,
            ),
            Knob("splits", "parts of the inner dimension, a divisor", dense.split_values),
            Knob(
                "streams",
                "positions of the inner dimension that a tile of one row reads alternately",
                lambda w, machine: (1, 2, 4, 8) if w.batch == 1 else (1,),
                neutral=1,
            ),
            Knob(
                "share",
                "whether threads share tiles of outputs or of rows",
                lambda w, machine: (dense.OUTPUTS, dense.ROWS),
                neutral=dense.OUTPUTS,
                closed=True,
            ),
            prefetch_flag("fetch_weight", "1 prefetches the next weights"),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """See :func:`tvmconv.costs.cpu.dense.default_config`."""
        return dense.default_config(workload, machine)

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The register tile fits, and parts divide the inner dimension."""
        dense.check(workload, machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.gemm.dense.Dense` in place."""
        block, store = schedule.get_sblock("dense"), schedule.get_sblock("output")
        steps = 1
        if dense.steps_by_lane(workload, machine, config.int("splits")):
            steps = machine.lanes
        if config.int("splits") > 1:
            store = schedule.cache_write(block, 0, "global")
        split, row, column, vector, lane, k = schedule.get_loops(block)
        tiles, row = schedule.split(row, [None, config.int("rows")])
        stream, k, step = schedule.split(k, [config.int("streams"), None, steps])
        outer = outer_loops(config, column, tiles)
        schedule.reorder(split, *outer, k, stream, step, row, vector, lane)
        if config.int("splits") > 1:
            parallelize(schedule, [split, outer[0]], workload.macs, machine.cores)
        else:
            _mark_whole(schedule, outer, workload, machine)
            if config.int("fetch_weight") and config["share"] == dense.OUTPUTS:
                mark_panel(schedule, outer[1])
        register_tile(
            schedule,
            block,
            store,
            at=outer[1],
            reduction=k,
            tile=(stream, step, row, vector),
            lane=lane,
        )
        if config.int("splits") > 1:
            finish_layer(schedule, machine)

    explain_cost = staticmethod(dense.explain_cost)


SCHEDULE = DenseSchedule()


def outer_loops(config: Config, column: LoopRV, row: LoopRV) -> tuple[LoopRV, LoopRV]:
    """The loops over tiles, the loop that threads share first."""
    return (row, column) if config["share"] == dense.ROWS else (column, row)


def _mark_whole(
    schedule: Schedule, outer: tuple[LoopRV, LoopRV], workload: Conv2dWorkload, machine: Machine
) -> None:
    """Share the first loop over tiles; smaller last tiles become separate code."""
    if pays_threads(schedule, outer[0], workload.macs, machine.cores):
        mark_parallel(schedule, outer[0])
    mark_cases(schedule, *outer)


def finish_layer(schedule: Schedule, machine: Machine) -> None:
    """Schedule the pass of the epilogue."""
    spatial_block(schedule, inspect(schedule, schedule.get_sblock("output")), machine)
