"""Depthwise convolution: all taps of a register tile are unrolled, border tiles are separate.

1. Threads share bands of rows, and the channel blocks of each band.
2. A tile of ``tile_h`` x ``tile_w`` output pixels accumulates in registers. Within a kernel row
   the taps of neighboring outputs read the same input vectors, so each is loaded once a row.
3. The tiles that touch the padding are separate code; the interior has no predicate.
4. The epilogue is applied to the registers before the only store.
"""

from __future__ import annotations

from tvmconv.algorithms.depthwise.depthwise import dword_rows, most_rows_that_share, rows_of_dword
from tvmconv.algorithms.depthwise.small_groups import group_sizes
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.depthwise import (
    UNROLL_LIMIT,
    activation_bytes,
    call_cycles,
    holds_row,
    kept_columns,
    overlapping,
    partition_of,
    widest,
)
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.partition import band_tiles, best, crossing_cycles, overlaps, spans
from tvmconv.costs.cpu.tile_knobs import TILE_ROWS
from tvmconv.costs.cuts import balanced
from tvmconv.costs.limits import check_minimum
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_taps
from tvmconv.tvm_api.types import Schedule

# columns of a tile whose steps are dwords of several rows, and vectors that are narrowed at once
_DWORD_COLUMNS, _NARROWED = 8, 4
# accumulators of a tile whose rows share dwords; half as many if more weights than this are loaded
_MOST_SUMS, _KEPT_WEIGHTS = 16, 8


class DepthwiseSchedule(ConvSchedule[Machine]):
    """Register tiles of rows and columns, all taps in registers."""

    KNOBS = Knobs(
        (
            TILE_ROWS,
            Knob(
                "tile_w",
                "columns of the register tile",
                lambda w, machine: range(1, min(widest(machine) + 4, w.out_width) + 1),
            ),
            Knob(
                "bands",
                "bands of rows that threads share, in addition to channel blocks",
                lambda w, machine: sorted({1, row_bands_of(w, machine, 1)}),
                neutral=1,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """A whole row if registers hold it, else the widest balanced part of one.

        An out-of-order core hides a tile's latency by the next tile's FMAs. Integer tiles, and
        tiles for in-order cores, have more rows instead. If loads delay FMAs, the rows of a tile
        share the pixels that they read.
        """
        tile_w = balanced(workload.out_width, kept_columns(workload, machine))
        packed = multiply_of(workload, machine).is_packed
        if rows_of_dword(workload, machine) > 1:
            # Weights are operands from memory, so that few registers hold a tile. Four vectors of
            # accumulators are narrowed to one, so the last two of six would cost as much as four.
            tile_w = -(-balanced(workload.out_width, _DWORD_COLUMNS) // _NARROWED) * _NARROWED
            tile_w = min(tile_w, workload.out_width)
        rows = max(1, min(machine.minimum_accumulators // tile_w, workload.out_height))
        # loads delay FMAs only on in-order cores
        if not (packed or machine.code.loads_block):
            tile_w = workload.out_width if holds_row(workload, machine) else tile_w
            rows = 1
        elif not packed:
            rows, tile_w = overlapping(workload, machine) or (rows, tile_w)
        shared = min(most_rows_that_share(workload, machine), workload.out_height)
        if shared > 1:
            weights = dword_rows(workload, machine) * shared * workload.kernel_w
            sums = _MOST_SUMS if weights <= _KEPT_WEIGHTS else _MOST_SUMS // 2
            rows = min(shared, sums // _NARROWED)
            tile_w = min(tile_w, sums // rows)
        return Config.of(tile_h=rows, tile_w=tile_w, bands=row_bands_of(workload, machine, rows))

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The tile's accumulators, one input and one weight vector fit the register file."""
        check_minimum(workload, config, 1, "tile_h", "tile_w", "bands")
        tile_h, tile_w = config.int("tile_h"), config.int("tile_w")
        tile = f"depthwise {workload}: tile {tile_h}x{tile_w}"
        check_registers(machine, tile_h * tile_w + 2, tile)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the function of :class:`tvmconv.algorithms.depthwise.depthwise.Depthwise`."""
        tile_h, tile_w, bands = (config.int(name) for name in ("tile_h", "tile_w", "bands"))
        block, output = schedule.get_sblock("depthwiseconv2d"), schedule.get_sblock("output")
        n, b, h, w, lane, *reduction = schedule.get_loops(block)
        # the channels of a group, of which each permutes lanes in its own order
        channels = () if workload.is_depthwise else (reduction.pop(-2),)
        *depth, r, s = reduction
        ho, hi = schedule.split(h, [None, tile_h])
        band, ho = schedule.split(ho, [None, band_tiles(workload.out_height, tile_h, bands)])
        wo, wi = schedule.split(w, [None, tile_w])
        schedule.reorder(n, band, b, ho, wo, *depth, r, *channels, s, hi, wi, lane)
        mark_parallel(schedule, n, band, b)
        mark_cases(schedule, band, ho, wo)
        first = (*depth, r)[0]
        register_tile(schedule, block, output, at=wo, reduction=first, tile=(hi, wi), lane=lane)

        for loop in channels:
            schedule.unroll(loop)
        size = tile_h * tile_w * workload.kernel_w * group_sizes(workload)[0]
        for loop, unrolled in ((s, size), (r, size * dword_rows(workload, machine))):
            if unrolled <= UNROLL_LIMIT:
                schedule.unroll(loop)
        mark_taps(schedule, r, s)
        for taps in depth:
            mark_taps(schedule, taps)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """The slower of the FMAs and the input and output traffic from L2, and of other cores."""
        tile_h, bands = config.int("tile_h"), config.int("bands")
        span = band_tiles(workload.out_height, tile_h, bands)
        partition = partition_of(workload, machine, tile_h, span)
        crossing = partition.crossing(*activation_bytes(workload, machine), channelwise=True)
        parts = {
            name: cycles * partition.share
            for name, cycles in call_cycles(workload, machine).items()
        }
        edges = partition.edge_cycles(overlaps(workload), partition.groups)
        return {**parts, "crossing": crossing_cycles(machine, crossing) + edges}


SCHEDULE = DepthwiseSchedule()


def row_bands_of(workload: Conv2dWorkload, machine: Machine, tile_h: int) -> int:
    """Bands of rows of a depthwise layer, for tiles of so many rows."""
    tiles = -(-workload.out_height // tile_h)
    partitions = [partition_of(workload, machine, tile_h, span) for span in spans(machine, tiles)]
    cycles = sum(call_cycles(workload, machine).values())
    moved, overlap = activation_bytes(workload, machine), overlaps(workload)
    return best(partitions, cycles, *moved, channelwise=True, overlap=overlap).bands
