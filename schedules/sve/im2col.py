"""im2col whose panels are packed, and multiplied, by scalable vectors of pixels.

Loops, outermost first:

1. image and block of ``mc`` panels of ``mr`` pixels, packed when it is reached: parallel;
2. group of ``oc`` output blocks, panel;
3. pixel: the pass ``VectorizePixels`` computes some vectors of pixels at once;
4. channel block and taps, one loop: the reduction;
5. channel of the block and output block of the register tile, unrolled; lanes, one segment.

A panel's pixels are contiguous. Packing copies or gathers whole vectors under predicates, and
leaves zeros in the padding. Tiles of two vectors by eight or ten blocks are FTEngine's of 2VL x 8
and 2VL x 10 (Tan 2023, section 4.2.4).
"""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import PANEL_HEIGHT
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.costs.scalable.direct import MOST_VECTORS, segment_registers
from tvmconv.costs.scalable.im2col import SegmentPanelModel, panel_heights
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.cpu.im2col import SCHEDULE as NEON
from tvmconv.schedules.sve.layers import check_vectors, fills_segments, vectors_knob
from tvmconv.schedules.sve.scalable import ScalableSchedule
from tvmconv.tir.annotations import mark_cases, mark_segments
from tvmconv.tir.general.whole_reads import read_whole
from tvmconv.tvm_api.types import LoopRV, Schedule

# vectors that are copied to a panel at once
_PACKED = 4


class SveIm2colSchedule(ScalableSchedule):
    """Panels of scalable vectors of pixels, or NEON code."""

    FALLBACK = NEON
    KNOBS = Knobs(
        (
            *(knob for knob in NEON.KNOBS if knob.name != PANEL_HEIGHT.name),
            Knob(
                PANEL_HEIGHT.name,
                PANEL_HEIGHT.doc,
                lambda w, machine: {*PANEL_HEIGHT.values(w, machine), *panel_heights(w)},
            ),
            vectors_knob(
                "scalable vectors of pixels of the register tile; 0: NEON code of panels of mr "
                "pixels",
                lambda w, machine: MOST_VECTORS,
            ),
        ),
        retired=NEON.KNOBS.retired,
    )

    STEPS = NEON.STEPS

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The cheaper of panels of scalable vectors and of NEON code."""
        fixed = self.KNOBS.complete(NEON.default_config(workload, machine))
        if not fills_segments(workload):
            return fixed
        scalable = SegmentPanelModel(workload, machine).best()
        return min((scalable, fixed), key=lambda c: self.predicted_cycles(workload, machine, c))

    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The register tile fits, and blocks divide what they block."""
        vectors = config.int("vectors")
        mr, oc, mc, kc = (config.int(name) for name in ("mr", "oc", "mc", "kc"))
        tile = f"tile oc={oc} vectors={vectors} of {workload}"
        check_vectors(workload, vectors, MOST_VECTORS, tile)
        check_minimum(workload, config, 1, "mr", "oc")
        check_minimum(workload, config, 0, "mc")
        if kc:
            raise ConfigError(f"{tile} has kc={kc}. Expected 0, as kc is for NEON code. Set kc=0.")
        panels = -(-workload.out_height * workload.out_width // mr)
        if mc:
            check_divides(workload, config, "mc", panels, "panels")
        check_registers(machine, segment_registers(oc, vectors), tile)

    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.gemm.im2col.Im2col` in place."""
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, p, lane, cb, r, s, c = schedule.get_loops(block)
        panel, pixel = schedule.split(p, [None, config.int("mr")])
        row, panel = schedule.split(
            panel, [None, config.int("mc") or int(schedule.get(panel).extent)]
        )
        group, kb_tile = schedule.split(kb, [None, config.int("oc")])
        schedule.reorder(n, row, group, panel, pixel, cb, r, s, c, kb_tile, lane)
        outer = schedule.fuse(n, row)
        steps = schedule.fuse(cb, r, s)
        schedule.parallel(outer)
        read_whole(schedule, block, schedule.get_sblock("pack"))
        _pack(schedule, outer if config.int("mc") else None)
        mark_cases(schedule, group)
        register_tile(
            schedule, block, output, at=pixel, reduction=steps, tile=(c, kb_tile), lane=lane
        )
        mark_segments(schedule, pixel, config.int("vectors"))

    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """Predicted cycles by part of the model."""
        return SegmentPanelModel(workload, machine).parts(config)


SCHEDULE = SveIm2colSchedule()


def _pack(schedule: Schedule, at: LoopRV | None) -> None:
    """Copy the pixels of a block's panels at its loop; without a loop, of all panels."""
    block = schedule.get_sblock("pack")
    if at is not None:
        schedule.compute_at(block, at, preserve_unit_loops=True)
    else:
        image, first, *_ = schedule.get_loops(block)
        schedule.parallel(schedule.fuse(image, first))
    *_, cb, r, s, pixel, lane = schedule.get_loops(block)
    # all channels have the same predicates
    schedule.reorder(pixel, r, s, cb, lane)
    schedule.vectorize(lane)
    mark_segments(schedule, pixel, _PACKED)
