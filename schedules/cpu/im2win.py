"""im2win convolution, for every CPU family.

Loops, outermost first, as in Algorithm 6 of the thesis. But lanes are output channels, not
the reduction, so that kernels need no horizontal sums and no minimum height.

1. image, region of output rows: parallel; the region's strips are written, then
2. group of output blocks: its weights stay in cache while they pass over the region;
3. tile of rows and columns;
4. input block, kernel column, kernel row, channel of the block: the reduction, one run of memory;
5. row, column and output block of the register tile, unrolled; lanes, one vector.
"""

from __future__ import annotations

from tvmconv.algorithms.gemm.im2win import columns, region_rows
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct import TileModel
from tvmconv.costs.cpu.im2win import call_parts
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import OUT_BLOCKS
from tvmconv.costs.cuts import divisors, largest_divisor
from tvmconv.costs.limits import check_divides, check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.tir.annotations import mark_cases, mark_parallel
from tvmconv.tvm_api.types import Schedule


class Im2winSchedule(ConvSchedule[Machine]):
    """Register tiles over strips of windows."""

    KNOBS = Knobs(
        (
            OUT_BLOCKS,
            Knob(
                "oh",
                "rows of the register tile",
                lambda w, machine: range(1, min(w.out_height, 4) + 1),
            ),
            Knob(
                "ow",
                "columns of the register tile",
                lambda w, machine: range(1, min(w.out_width, machine.vector_registers) + 1),
            ),
            Knob(
                "rows",
                "output rows of a region, a divisor of the output's; rounded up to whole tiles",
                lambda w, machine: divisors(w.out_height),
                neutral=1,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The cheapest tile of one row, and regions whose strips fit half of L2."""
        model = TileModel(workload, machine, skips=False)
        oc, oh, ow = min(model.tiles(), key=lambda tile: (model.cycles(*tile), tile[1], -tile[2]))
        strip = 4 * columns(workload) * workload.kernel_h * machine.blocks(workload.in_channels)
        rows = max(1, machine.l2_bytes // 2 // (strip * machine.channel_block))
        tasks = -(-4 * machine.cores // workload.batch) if machine.cores > 1 else 1
        rows = min(rows, max(1, workload.out_height // tasks))
        return Config.of(
            oc=oc, oh=oh, ow=ow, rows=largest_divisor(workload.out_height, max(rows, oh))
        )

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The register tile fits, and ``rows`` divides the image's."""
        oc, oh, ow = (config.int(name) for name in ("oc", "oh", "ow"))
        check_minimum(workload, config, 1, "oc", "oh", "ow")
        check_divides(workload, config, "rows", workload.out_height, "output rows")
        registers = TileModel(workload, machine, skips=False).registers(oc, oh, ow)
        check_registers(machine, registers, f"tile oc={oc} oh={oh} ow={ow} of {workload}")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.gemm.im2win.Im2win` in place."""
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, m, x, lane, cb, v, u, c = schedule.get_loops(block)
        row, row_tile = schedule.split(m, [None, config.int("oh")])
        tiles = -(-region_rows(workload, config) // config.int("oh"))
        region, row = schedule.split(row, [None, tiles])
        group, kb_tile = schedule.split(kb, [None, config.int("oc")])
        x_outer, x_tile = schedule.split(x, [None, config.int("ow")])
        tile = (row_tile, x_tile, kb_tile)
        schedule.reorder(n, region, group, row, x_outer, cb, v, u, c, *tile, lane)
        windows = schedule.get_sblock("windows")
        schedule.compute_at(windows, region, preserve_unit_loops=True)
        schedule.vectorize(schedule.get_loops(windows)[-1])
        mark_parallel(schedule, n, region)
        mark_cases(schedule, group, x_outer)
        if config.int("oh") > 1:
            mark_cases(schedule, row)
        register_tile(schedule, block, output, at=x_outer, reduction=cb, tile=tile, lane=lane)

    explain_cost = staticmethod(call_parts)


SCHEDULE = Im2winSchedule()
