"""First layer: output channels in vectors, input pixels as broadcast scalars.

1. Bands of rows, and groups of ``oc`` output blocks of each band, run in parallel.
2. A tile of ``oc`` blocks x ``tile_h`` x ``tile_w`` pixels accumulates in registers over all
   channels and taps. Each broadcast scalar feeds ``oc`` FMAs, and each weight vector one FMA per
   pixel. With ``oc`` of 2 or more, two load ports keep up with two FMA units.
3. Rows of taps outside the image are skipped. Tiles at the left and right border are separate
   code, in which only the outermost pixels have a predicate.
4. The epilogue is applied to the registers before the only store.

Integer layers first copy rows with their padding. The dwords of a kernel row are the outermost
reduction loop.
"""

from __future__ import annotations

from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.direct_first import DwordTiles, bands_of, call_parts
from tvmconv.costs.cpu.direct_first_lanes import UNROLL_LIMIT, LaneTiles
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.partition import band_tiles
from tvmconv.costs.cpu.tile_knobs import TILE_ROWS
from tvmconv.costs.cuts import balanced
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.widening import schedule_rows
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_taps
from tvmconv.tvm_api.types import Schedule

# Columns of a kernel. A longer row has separate code for ranges of taps at the border. With one
# output block, tiles of two rows are faster up to the second length.
_SHORT_ROW, _LONG_ROW = 4, 16
# FMAs of one output vector that take no longer than its store to L3
_FEW_TAPS = 32
# with so few registers, loops over many taps leave none for the pixels: smaller tiles were slower
_FEW_REGISTERS = 16
# output blocks of a tile if stores are the limit
_STORING = 4
# minimum pixels of a tile that two rows share: two by two
_SQUARE = 4


class DirectFirstSchedule(ConvSchedule[Machine]):
    """Output channels in vectors, input pixels as broadcast scalars."""

    KNOBS = Knobs(
        (
            Knob(
                "oc",
                "output blocks of the register tile",
                lambda w, machine: (
                    oc for oc in (1, 2, 3, 4) if oc <= machine.blocks(w.out_channels)
                ),
            ),
            TILE_ROWS,
            Knob(
                "tile_w",
                "columns of the register tile",
                lambda w, machine: range(1, min(_widest(machine, 1), w.out_width) + 1),
            ),
            Knob(
                "bands",
                "bands of rows that threads share, in addition to groups of output blocks",
                lambda w, machine: sorted({1, bands_of(w, machine, 1, 1)}),
                neutral=1,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The cheapest tile by cost, if FMAs multiply by lane.

        Others: two output blocks and rows a tile; one row, or four blocks, where stores dominate.
        """
        if multiply_of(workload, machine).is_packed:
            return DwordTiles(workload, machine).best()
        if machine.code.by_lane:
            oc, rows, columns = LaneTiles(workload, machine).best()
            bands = bands_of(workload, machine, oc, rows, columns)
            return Config.of(oc=oc, tile_h=rows, tile_w=columns, bands=bands)
        few = workload.taps <= _FEW_TAPS
        # with few taps the stores are the limit: more blocks a tile read the image less often
        oc = min(_STORING if few else 2, machine.blocks(workload.out_channels))
        pixels, rows = _widest(machine, oc), 1
        # the compiler keeps pixels for later taps, in a register each
        kept = (machine.vector_registers - oc) // (oc + 1)
        if oc < _STORING and kept >= _SQUARE:
            # two rows are twice as many streams of stores to memory: 0.74 to 0.98 of the speed
            rows = 1 if few else min(2, workload.out_height)
            if few or machine.vector_registers > _FEW_REGISTERS:
                pixels = kept
                # two rows would multiply the code of borders: a 3x39 layer had 350 KB of it
                if workload.kernel_w > (_SHORT_ROW if oc > 1 else _LONG_ROW):
                    pixels, rows = kept if oc > 1 else kept * 3 // 4, 1
        tile_w = balanced(workload.out_width, pixels // rows)
        sums = machine.minimum_accumulators
        if tile_w == workload.out_width:
            # with the minimum, each late load delays FMAs: 12 sums took 0.87 of the time of 8
            sums = min(sums * 3 // 2, pixels * oc)
        rows = max(rows, min(sums // (tile_w * oc), workload.out_height))
        return Config.of(
            oc=oc, tile_h=rows, tile_w=tile_w, bands=bands_of(workload, machine, oc, rows)
        )

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """Accumulators, one weight vector a block and one broadcast fit the register file."""
        check_minimum(workload, config, 1, "oc", "tile_h", "tile_w", "bands")
        oc, tile_h, tile_w, _ = _values(config)
        tile = f"direct_first {workload}: tile {oc}x{tile_h}x{tile_w}"
        needed = oc * tile_h * tile_w + oc + (oc > 1)
        if multiply_of(workload, machine).is_packed:
            needed = DwordTiles(workload, machine).registers(oc, tile_h * tile_w)
        check_registers(machine, needed, tile)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the function of :class:`tvmconv.algorithms.direct.direct_first.DirectFirst`."""
        oc, tile_h, tile_w, bands = _values(config)
        block, output = schedule.get_sblock("conv2d"), schedule.get_sblock("output")
        n, kb, h, w, lane, *reduction = schedule.get_loops(block)
        kbo, kbi = schedule.split(kb, [None, oc])
        ho, hi = schedule.split(h, [None, tile_h])
        band, ho = schedule.split(ho, [None, band_tiles(workload.out_height, tile_h, bands)])
        wo, wi = schedule.split(w, [None, tile_w])
        schedule.reorder(n, band, kbo, ho, wo, *reduction, hi, wi, kbi, lane)
        mark_parallel(schedule, n, band, kbo)
        mark_cases(schedule, kbo, wo)
        if tile_h > 1:
            mark_cases(schedule, band, ho)
        tile = (hi, wi, kbi)
        if multiply_of(workload, machine).is_packed:
            schedule_rows(schedule, workload)
            first = reduction[0]
            register_tile(schedule, block, output, at=wo, reduction=first, tile=tile, lane=lane)
            return
        *depth, r, s, ci = reduction
        # A short row in ranges of one or two taps would be unrolled by the compiler, which then
        # runs out of registers. Predicates of the outermost pixels are cheaper.
        mark_taps(schedule, r, s if workload.kernel_w > _SHORT_ROW else None)
        for taps in depth:
            mark_taps(schedule, taps)
        first = (*depth, r)[0]
        register_tile(schedule, block, output, at=wo, reduction=first, tile=tile, lane=lane)

        # Neighboring taps of one channel share pixels. If taps were unrolled, the compiler would
        # keep their broadcasts and run out of registers. Channels share none.
        if workload.in_channels * oc * tile_h * tile_w <= UNROLL_LIMIT:
            schedule.unroll(ci)

    explain_cost = staticmethod(call_parts)


SCHEDULE = DirectFirstSchedule()


def _values(config: Config) -> tuple[int, int, int, int]:
    oc, tile_h, tile_w, bands = (config.int(k) for k in ("oc", "tile_h", "tile_w", "bands"))
    return oc, tile_h, tile_w, bands


def _widest(machine: Machine, oc: int) -> int:
    """Pixels whose accumulators leave registers for the weights and one broadcast."""
    return (machine.vector_registers - oc - 1) // oc
