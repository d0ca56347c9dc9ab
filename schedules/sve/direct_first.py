"""Stems on plain input by scalable vectors of a row's positions.

Loops, outermost first:

1. the padded copy of the image in channel blocks: parallel; squares are transposed in registers;
2. image, group of output blocks, row: parallel;
3. position: the pass ``VectorizePixels`` computes some vectors of positions at once;
4. plane, kernel row, kernel column, channel block: the reduction;
5. channel of the block and output block of the register tile, unrolled; lanes, one segment.

With a stride, positions of the copy are gathered.
"""

from __future__ import annotations

from tvmconv.algorithms.direct.padded_image import IMAGE
from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.scalable.direct_first import MOST_BLOCKS, MOST_VECTORS, StemModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.cpu.direct_first import SCHEDULE as NEON
from tvmconv.schedules.sve.scalable import ScalableSchedule
from tvmconv.tir.annotations import (
    mark_cases,
    mark_parallel,
    mark_segments,
    mark_taps,
    mark_transpose,
)
from tvmconv.tvm_api.types import Schedule

_NEON_KNOBS = tuple(knob for knob in NEON.KNOBS if knob.name != "oc")


class SveDirectFirstSchedule(ScalableSchedule):
    """Scalable vectors of positions, or NEON code."""

    FALLBACK = NEON
    KNOBS = Knobs(
        (
            Knob(
                "oc",
                "output blocks of the register tile",
                lambda w, machine: range(1, min(MOST_BLOCKS, machine.blocks(w.out_channels)) + 1),
            ),
            *_NEON_KNOBS,
            Knob(
                "vectors",
                "scalable vectors of positions of the register tile; 0: NEON code of tile_h by "
                "tile_w pixels",
                lambda w, machine: range(MOST_VECTORS + 1 if w.types == FLOAT32 else 1),
                neutral=0,
            ),
        ),
        retired=NEON.KNOBS.retired,
    )

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best of scalable code, if a layer has it, and of NEON code.

        Vectors of one segment are NEON's, which need no copy.
        """
        fixed = self.KNOBS.complete(NEON.default_config(workload, machine))
        if workload.types != FLOAT32 or machine.segments < 2:
            return (fixed,)
        return self.KNOBS.complete(StemModel(workload, machine).best()), fixed

    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The tile fits the register file."""
        oc, vectors = config.int("oc"), config.int("vectors")
        tile = f"tile oc={oc} vectors={vectors} of {workload}"
        if workload.types != FLOAT32 or not 0 < vectors <= MOST_VECTORS or oc < 1:
            raise ConfigError(
                f"{tile} is not possible. Expected an FP32 layer, oc of 1 or more, and 1 to "
                f"{MOST_VECTORS} vectors. Set vectors=0 for NEON code."
            )
        if any(config.int(name) != 1 for name in ("tile_h", "tile_w", "bands")):
            raise ConfigError(
                f"{tile} has wrong sizes: {config}. Expected tile_h=1, tile_w=1 and bands=1, as "
                "they are for NEON code. Set them to 1."
            )
        check_registers(machine, StemModel(workload, machine).registers(oc, vectors), tile)

    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the function of :class:`tvmconv.algorithms.direct.direct_first.DirectFirst`."""
        _copy(schedule, workload, machine)
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, h, x, lane, *reduction, c = schedule.get_loops(block)
        kb_outer, kb_tile = schedule.split(kb, [None, config.int("oc")])
        schedule.reorder(n, kb_outer, h, x, *reduction, c, kb_tile, lane)
        mark_parallel(schedule, n, kb_outer, h)
        mark_cases(schedule, kb_outer)
        if workload.is_volume:
            mark_taps(schedule, reduction[0])
        tile = (c, kb_tile)
        register_tile(schedule, block, output, at=x, reduction=reduction[0], tile=tile, lane=lane)
        mark_segments(schedule, x, config.int("vectors"))

    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return StemModel(workload, machine).parts(config)


SCHEDULE = SveDirectFirstSchedule()


def _copy(schedule: Schedule, workload: Conv2dWorkload, machine: Machine) -> None:
    """Copy the image, with its border as separate code."""
    n, cb, y, x, c = schedule.get_loops(schedule.get_sblock(IMAGE))
    if workload.data_layout == "NCHW":
        x, column = schedule.split(x, [None, machine.lanes])
        schedule.reorder(x, c, column)
        mark_transpose(schedule, c)
        schedule.vectorize(column)
    else:
        schedule.unroll(c)
    mark_parallel(schedule, n, cb, y)
    mark_cases(schedule, y, x)
