"""Fully connected layers by scalable vectors of outputs.

A segment has four neighboring outputs, where other layers have a position's channels. Four elements
of the data are repeated in every segment (``ld1rq``), and FMAs multiply by their lanes. As in
NEON's schedule, but the loop over a tile's vectors, several at once, is outside the inner
dimension. Layers without whole vectors of data or outputs use NEON code.
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.nest import parallelize
from tvmconv.schedules.cpu.dense import DenseSchedule, finish_layer, outer_loops
from tvmconv.tir.annotations import mark_segments
from tvmconv.tvm_api.types import Schedule


class SveDenseSchedule(DenseSchedule):
    """Scalable vectors of outputs, or NEON code."""

    KNOBS = Knobs(
        (
            *DenseSchedule.KNOBS,
            Knob(
                "vectors",
                "1: scalable vectors of outputs; 0: NEON code",
                lambda w, machine: (0, 1),
                neutral=0,
                closed=True,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """NEON's tile, or scalable vectors if the layer fills them."""
        config = super().default_config(workload, machine)
        fills = not _obstacle(workload, machine, config)
        streams = 1 if fills else config.int("streams")
        return Config.of(**{**config, "vectors": int(fills), "streams": streams})

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """See the base class; scalable vectors need whole vectors of data and outputs."""
        super().check(workload, machine, config)
        if config.int("vectors") and (reason := _obstacle(workload, machine, config)):
            raise ConfigError(f"vectors=1 of {workload}: {reason}. Set vectors=0 for NEON code.")
        if config.int("vectors") and config.int("streams") > 1:
            raise ConfigError(f"streams={config['streams']} of {workload} needs vectors=0")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """See the base class."""
        if not config.int("vectors"):
            super().apply(schedule, workload, machine, config)
            return
        block, lanes = schedule.get_sblock("dense"), machine.lanes
        store = schedule.cache_write(block, 0, "global")
        split, row, column, vector, lane, k = schedule.get_loops(block)
        tiles, row = schedule.split(row, [None, config.int("rows")])
        k, step = schedule.split(k, [None, lanes])
        outer = outer_loops(config, column, tiles)
        schedule.reorder(split, *outer, vector, k, step, row, lane)
        parallelize(schedule, [split, outer[0]], workload.macs, machine.cores)
        register_tile(schedule, block, store, at=vector, reduction=k, tile=(step, row), lane=lane)
        mark_segments(schedule, vector, -(-config.int("width") // machine.segments))
        finish_layer(schedule, machine)


SCHEDULE = SveDenseSchedule()


def _obstacle(workload: Conv2dWorkload, machine: Machine, config: Config) -> str:
    """Why a layer has NEON code, as a clause; empty for scalable vectors."""
    if machine.segments < 2 or config.int("width") < machine.segments:
        return "a tile of outputs is narrower than a scalable vector"
    if workload.in_channels // config.int("splits") % machine.lanes:
        return "the inputs are not whole vectors"
    return ""
