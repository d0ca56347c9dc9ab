"""Direct convolution by scalable vectors: NEON's schedule, on several pixels at once.

Loops, outermost first:

1. image, band of rows, group of output blocks (and the row, if rows cannot be joined): parallel;
2. pixel: the pass ``VectorizePixels`` computes some vectors of pixels at once;
3. input block, plane, kernel row, kernel column: the reduction;
4. channel of the block and output block of the register tile, unrolled; lanes, one segment.

With a stride, pixels of the input are gathered. INT8 layers: :mod:`.padded_rows`.
"""

from __future__ import annotations

from tvmconv.algorithms.direct.direct import flattened, joined
from tvmconv.algorithms.integer.padded_rows import multiplies_bytes
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_parts import check_parts
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.padding import rows_inside
from tvmconv.costs.scalable.direct import SegmentModel
from tvmconv.costs.scalable.padded_rows import MOST_VECTORS, PaddedRowsModel
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.cpu.direct import SCHEDULE as NEON
from tvmconv.schedules.sve import padded_rows
from tvmconv.schedules.sve.layers import check_vectors, fills_segments
from tvmconv.schedules.sve.scalable import ScalableSchedule
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_segments, mark_taps
from tvmconv.tvm_api.types import LoopRV, Schedule


class SveDirectSchedule(ScalableSchedule):
    """Scalable vectors of pixels, or NEON code."""

    FALLBACK = NEON
    KNOBS = Knobs(
        (
            *NEON.KNOBS,
            Knob(
                "vectors",
                "scalable vectors of pixels of the register tile; 0: NEON code of oh by ow pixels",
                lambda w, machine: range(_most_vectors(w, machine) + 1),
                neutral=0,
            ),
        ),
        retired=NEON.KNOBS.retired,
    )

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best of scalable code, if a layer has it, and of NEON code."""
        fixed = self.KNOBS.complete(NEON.default_config(workload, machine))
        if multiplies_bytes(workload, machine):
            oc, vectors, rows = PaddedRowsModel(workload, machine).best()
            scalable = Config.of(oc=oc, oh=1, ow=1, rows=rows, vectors=vectors)
            return self.KNOBS.complete(scalable), fixed
        if not fills_segments(workload):
            return (fixed,)
        oc, vectors, rows = SegmentModel(workload, machine).best()
        scalable = Config.of(oc=oc, oh=1, ow=1, rows=rows, vectors=vectors)
        return self.KNOBS.complete(scalable), fixed

    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The tile fits the register file, bands divide the image, and the reduction is whole."""
        check_parts(workload, machine, config)
        if workload.types.is_integer:
            padded_rows.check(workload, machine, config)
            return
        oc, vectors, rows = (config.int(name) for name in ("oc", "vectors", "rows"))
        tile = f"tile oc={oc} vectors={vectors} of {workload}"
        model = SegmentModel(workload, machine)
        check_vectors(workload, vectors, model.most_vectors, tile)
        if oc < 1 or rows < 0 or (config.int("oh"), config.int("ow")) != (1, 1):
            raise ConfigError(
                f"{tile} has wrong sizes: {config}. Expected oc of 1 or more, rows of 0 or more, "
                "and oh=1 ow=1, which are for NEON code. Change them."
            )
        if rows and (workload.out_height % rows or model.rows > 1):
            raise ConfigError(
                f"{tile} has rows={rows}. Expected a divisor of {workload.out_height}, if rows can "
                "be joined. Set rows=0."
            )
        check_registers(machine, model.registers(oc, vectors), tile)

    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.direct.direct.Direct` in place."""
        if workload.types.is_integer:
            padded_rows.apply(schedule, workload, machine, config)
            return
        flat = flattened(workload) != workload
        one_row = flat or joined(workload, config)
        if one_row:
            schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, h, x, lane, cb, *depth, r, s, c = schedule.get_loops(block)
        kb_outer, kb_tile = schedule.split(kb, [None, config.int("oc")])
        rows = config.int("rows") or workload.out_height
        parallel: tuple[LoopRV, ...] = (n, kb_outer, h)
        if one_row:
            band, x = schedule.split(x, [None, rows * workload.out_width])
            parallel = (n, band, kb_outer, h)
        schedule.reorder(*parallel, x, cb, *depth, r, s, c, kb_tile, lane)
        mark_parallel(schedule, *parallel)
        mark_cases(schedule, kb_outer)
        for taps in (*depth, *(() if one_row else (r,))):
            mark_taps(schedule, taps)
        if one_row and not flat:
            # so that the pixels that a tap reads are known before the reduction starts
            schedule.unroll(s)
        register_tile(schedule, block, output, at=x, reduction=cb, tile=(c, kb_tile), lane=lane)
        mark_segments(schedule, x, config.int("vectors"))

    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        if workload.types.is_integer:
            return PaddedRowsModel(workload, machine).parts(config)
        return SegmentModel(workload, machine).parts(config)

    def neon_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """As the base class; unlike NEON code, joined rows also compute rows of the padding."""
        parts = super().neon_cost(workload, machine, config)
        return {**parts, "arithmetic": parts["arithmetic"] * rows_inside(workload)}


SCHEDULE = SveDirectSchedule()


def _most_vectors(workload: Conv2dWorkload, machine: Machine) -> int:
    """Vectors of the widest tile; 0 for a layer without scalable code."""
    if fills_segments(workload):
        return SegmentModel(workload, machine).most_vectors
    return MOST_VECTORS if multiplies_bytes(workload, machine) else 0
