"""im2win by scalable vectors of a row's positions, which are gathered from strips.

Loops, outermost first:

1. image, region of output rows: parallel; the region's strips are written by NEON code, then
2. group of output blocks, row;
3. position: the pass ``VectorizePixels`` computes some vectors of positions at once;
4. input block, kernel column, kernel row: the reduction, one run of memory for each position;
5. channel of the block and output block of the register tile, unrolled; lanes, one segment.
"""

from __future__ import annotations

from tvmconv.algorithms.gemm.im2win import region_rows
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.limits import check_divides
from tvmconv.costs.scalable.im2win import StripModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.cpu.im2win import SCHEDULE as NEON
from tvmconv.schedules.sve.layers import check_vectors, fills_segments, vectors_knob
from tvmconv.schedules.sve.scalable import ScalableSchedule
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_segments
from tvmconv.tvm_api.types import Schedule


class SveIm2winSchedule(ScalableSchedule):
    """Scalable vectors of positions, or NEON code."""

    FALLBACK = NEON
    KNOBS = Knobs(
        (
            *NEON.KNOBS,
            vectors_knob(
                "scalable vectors of positions of the register tile; 0: NEON code of oh by ow "
                "pixels",
                lambda w, machine: StripModel(w, machine).most_vectors,
            ),
        ),
        retired=NEON.KNOBS.retired,
    )

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best of scalable code, if a layer has it, and of NEON code."""
        fixed = self.KNOBS.complete(NEON.default_config(workload, machine))
        if not fills_segments(workload):
            return (fixed,)
        oc, vectors, _ = StripModel(workload, machine).best()
        scalable = Config.of(oc=oc, oh=1, ow=1, rows=fixed.int("rows"), vectors=vectors)
        return self.KNOBS.complete(scalable), fixed

    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The register tile fits, and ``rows`` divides the image's."""
        oc, vectors = config.int("oc"), config.int("vectors")
        model, tile = StripModel(workload, machine), f"tile oc={oc} vectors={vectors} of {workload}"
        check_vectors(workload, vectors, model.most_vectors, tile)
        if oc < 1 or (config.int("oh"), config.int("ow")) != (1, 1):
            raise ConfigError(
                f"{tile} has wrong sizes: {config}. Expected oc of 1 or more, and oh=1 ow=1, "
                "which are for NEON code. Change them."
            )
        check_divides(workload, config, "rows", workload.out_height, "output rows")
        check_registers(machine, model.registers(oc, vectors), tile)

    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.gemm.im2win.Im2win` in place."""
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, m, x, lane, cb, v, u, c = schedule.get_loops(block)
        region, row = schedule.split(m, [None, region_rows(workload, config)])
        group, kb_tile = schedule.split(kb, [None, config.int("oc")])
        schedule.reorder(n, region, group, row, x, cb, v, u, c, kb_tile, lane)
        windows = schedule.get_sblock("windows")
        schedule.compute_at(windows, region, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(windows)[-1])
        mark_parallel(schedule, n, region)
        mark_cases(schedule, group)
        register_tile(schedule, block, output, at=x, reduction=cb, tile=(c, kb_tile), lane=lane)
        mark_segments(schedule, x, config.int("vectors"))

    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return StripModel(workload, machine).parts(config)


SCHEDULE = SveIm2winSchedule()
