"""im2col with a packed matrix product, for every CPU family.

The five loops of GEBP around the register tile, outermost first:

1. ``mc``: a block of panels, packed when it is reached; parallel, with the image;
2. ``kc``: a part of the reduction (0: all of it, the accumulators then never leave the registers);
3. ``nc``: groups of ``nr`` output channels; packed weights of one group stay in L1;
4. panels of the block;
5. channel block, taps, channel: the reduction; ``mr`` pixels by ``nr`` channels in registers.
"""

from __future__ import annotations

from tvmconv.algorithms.gemm.im2col import depth_blocks
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu import im2col
from tvmconv.costs.cpu.im2col import panel_registers, parts_of_depth, tile_heights
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import OUT_BLOCKS, PANEL_HEIGHT, panel_divisors
from tvmconv.costs.cuts import divisors
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import channel_steps, dword_steps, register_tile
from tvmconv.tir.annotations import mark_cases
from tvmconv.tvm_api.types import BlockRV, Schedule


class Im2colSchedule(ConvSchedule[Machine]):
    """The five loops of GEBP over packed panels of pixels."""

    KNOBS = Knobs(
        (
            PANEL_HEIGHT,
            OUT_BLOCKS,
            Knob(
                "mc",
                "panels of a block, a divisor of their number; 0: all are packed first, as im2col "
                "does",
                lambda w, machine: (0, *panel_divisors(w, machine)),
                neutral=0,
            ),
            Knob(
                "kc",
                "blocks of input channels (plain: channels) of a part of the reduction, a divisor; "
                "0: all",
                lambda w, machine: (0, *divisors(depth_blocks(w, machine))[:-1]),
                neutral=0,
            ),
        )
    )

    # steps of the paper: panels packed block by block, and the whole im2col buffer packed first
    STEPS = ({}, {"mc": 0})

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The output blocks, pixels and panels with the fewest predicted cycles.

        Usually two output blocks are in registers. By lane, a load of pixels serves all channels of
        a block. Tiles of three blocks then need fewer loads, and hide the latency of more FMAs.
        """
        present, by_lane = machine.blocks(workload.out_channels), machine.code.by_lane
        pixels = workload.out_height * workload.out_width
        widths: tuple[int, ...] = (2, 3) if by_lane else (2,)
        if multiply_of(workload, machine).is_packed:
            # with few registers, a tile of one block leaves room for more pixels
            widths = (1, 2, 3)
        offers = [
            Config.of(mr=mr, oc=oc, mc=mc, kc=kc)
            for oc in sorted({min(blocks, present) for blocks in widths})
            for mr in tile_heights(workload, machine, oc)
            for mc in (0, *divisors(-(-pixels // mr))[:-1])
            for kc in parts_of_depth(workload, machine, mr)
        ]
        return min(offers, key=lambda config: self.predicted_cycles(workload, machine, config))

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The register tile fits, and blocks divide what they block."""
        mr, oc, mc, kc = (config.int(name) for name in ("mr", "oc", "mc", "kc"))
        check_minimum(workload, config, 1, "mr", "oc")
        check_minimum(workload, config, 0, "mc", "kc")
        panels = -(-workload.out_height * workload.out_width // mr)
        if mc:
            check_divides(workload, config, "mc", panels, "panels")
        if kc:
            check_divides(workload, config, "kc", depth_blocks(workload, machine), "channel blocks")
        needed = panel_registers(workload, machine, oc, mr)
        check_registers(machine, needed, f"tile mr={mr} oc={oc} of {workload}")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.gemm.im2col.Im2col` in place."""
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        mr, oc, mc, kc = (config.int(name) for name in ("mr", "oc", "mc", "kc"))
        consumer = output
        if kc:
            block, consumer = _parts(schedule, block, kc), block
        n, kb, p, lane, *part, cb, r, s, c = schedule.get_loops(block)
        panel, pixel = schedule.split(p, [None, mr])
        panels = int(schedule.get(panel).extent)
        row, panel = schedule.split(panel, [None, mc or panels])
        group, kb_tile = schedule.split(kb, [None, oc])
        steps, tile = channel_steps(machine, c, (pixel, kb_tile))
        reduction = (cb, r, s)
        if multiply_of(workload, machine).is_packed:
            cb, words = dword_steps(schedule, cb, machine, multiply_of(workload, machine))
            reduction, tile = (r, s, cb), (*words, *tile)
        schedule.reorder(n, row, *part, group, panel, *reduction, *steps, *tile, lane)
        outer = schedule.fuse(n, row)
        schedule.parallel(outer)
        pack = schedule.get_sblock("pack")
        if mc:
            schedule.compute_at(pack, (outer, *part)[-1], preserve_unit_loops=True)
        else:
            image, first, *_ = schedule.get_loops(pack)
            schedule.parallel(schedule.fuse(image, first))
        if workload.data_layout == "NCHWc":
            schedule.vectorize(schedule.get_loops(pack)[-1])
        mark_cases(schedule, *part, group, panel)
        register_tile(
            schedule, block, consumer, at=panel, reduction=reduction[0], tile=tile, lane=lane
        )
        if kc:
            schedule.reverse_compute_at(output, outer, preserve_unit_loops=True)
            schedule.vectorize(schedule.get_loops(output)[-1])

    explain_cost = staticmethod(im2col.explain_cost)


SCHEDULE = Im2colSchedule()


def _parts(schedule: Schedule, block: BlockRV, kc: int) -> BlockRV:
    """Cut the reduction into parts of ``kc`` and return the block that sums one part.

    ``block`` then adds the parts up in memory.
    """
    depth = schedule.get_loops(block)[4]
    part, _ = schedule.split(depth, [None, kc])
    return schedule.rfactor(part, 0)
