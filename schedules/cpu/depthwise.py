"""Depthwise convolution: taps of one register tile unrolled, border tiles of their own.

1. Channel blocks (and, where they are fewer than needed, bands of rows) run in parallel.
2. A tile of ``tile_h`` x ``tile_w`` output pixels accumulates in registers. Within a kernel row
   the taps of neighbouring outputs read the same input vectors, so each is loaded once a row.
3. The tiles that touch the padding are separate code; the interior carries no predicate.
4. The epilogue is applied to the registers before the only store.
"""

from __future__ import annotations

from tvmconv.algorithms.depthwise.depthwise import most_rows_that_share, rows_of_word, word_rows
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.depthwise import (
    UNROLL_LIMIT,
    arithmetic_cycles,
    holds_row,
    kept_columns,
    overlapping,
    traffic_cycles,
    widest,
)
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import TILE_ROWS
from tvmconv.costs.cuts import balanced
from tvmconv.costs.parts import slowest
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.threads import band_tiles, row_bands
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_taps
from tvmconv.tvm_api.types import Schedule

# columns of a tile whose steps are words of several rows, and vectors that are narrowed at once
_WORDS_TILE, _NARROWED = 8, 4
# sums of a tile whose rows share words, half of them beside more weights than stay in registers
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
                "bands of rows that threads share, beside channel blocks",
                lambda w, machine: (1, _bands(w, machine, 1)),
                neutral=1,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """A whole row where registers hold it, else the widest balanced part of one.

        Cores that reorder instructions hide a tile's latency behind the next one's sums. Those in
        order, and sums of integers, have rows on top until it is hidden. Where loads keep
        multiply-adds from starting, tiles have rows that share what they read instead.
        """
        tile_w = balanced(workload.out_width, kept_columns(workload, machine))
        if rows_of_word(workload, machine) > 1:
            # Weights come from memory, so that few registers hold a tile, too. Four vectors of sums
            # are narrowed to one: of tiles of six the last two took nearly as many instructions.
            tile_w = -(-balanced(workload.out_width, _WORDS_TILE) // _NARROWED) * _NARROWED
            tile_w = min(tile_w, workload.out_width)
        rows = max(1, min(machine.minimum_accumulators // tile_w, workload.out_height))
        # loads hold up multiply-adds of cores in order alone
        if not (multiply_of(workload, machine).is_packed or machine.code.loads_block):
            tile_w = workload.out_width if holds_row(workload, machine) else tile_w
            rows = 1
        elif not multiply_of(workload, machine).is_packed:
            rows, tile_w = overlapping(workload, machine) or (rows, tile_w)
        shared = min(most_rows_that_share(workload, machine), workload.out_height)
        if shared > 1:
            weights = word_rows(workload, machine) * shared * workload.kernel_w
            sums = _MOST_SUMS if weights <= _KEPT_WEIGHTS else _MOST_SUMS // 2
            rows = min(shared, sums // _NARROWED)
            tile_w = min(tile_w, sums // rows)
        return Config.of(tile_h=rows, tile_w=tile_w, bands=_bands(workload, machine, rows))

    def check(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The tile's accumulators, one input and one weight vector fit the register file."""
        tile_h, tile_w, bands = (config.int(name) for name in ("tile_h", "tile_w", "bands"))
        if min(tile_h, tile_w, bands) < 1:
            raise ConfigError(f"depthwise {workload}: knobs must be positive, got {config}")
        tile = f"depthwise {workload}: tile {tile_h}x{tile_w}"
        check_registers(machine, tile_h * tile_w + 2, tile)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the function of :class:`tvmconv.algorithms.depthwise.depthwise.Depthwise`."""
        tile_h, tile_w, bands = (config.int(name) for name in ("tile_h", "tile_w", "bands"))
        block, output = schedule.get_sblock("depthwiseconv2d"), schedule.get_sblock("output")
        n, b, h, w, lane, *depth, r, s = schedule.get_loops(block)
        ho, hi = schedule.split(h, [None, tile_h])
        band, ho = schedule.split(ho, [None, band_tiles(workload.out_height, tile_h, bands)])
        wo, wi = schedule.split(w, [None, tile_w])
        schedule.reorder(n, b, band, ho, wo, *depth, r, s, hi, wi, lane)
        mark_parallel(schedule, n, b, band)
        mark_cases(schedule, ho, wo)
        first = (*depth, r)[0]
        register_tile(schedule, block, output, at=wo, reduction=first, tile=(hi, wi), lane=lane)

        size = tile_h * tile_w * workload.kernel_w
        for loop, unrolled in ((s, size), (r, size * word_rows(workload, machine))):
            if unrolled <= UNROLL_LIMIT:
                schedule.unroll(loop)
        mark_taps(schedule, r, s)
        for taps in depth:
            mark_taps(schedule, taps)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """The slower of the multiply-adds and the input and output traffic from L2."""
        return slowest(
            arithmetic=arithmetic_cycles(workload, machine),
            memory=traffic_cycles(workload, machine),
        )


SCHEDULE = DepthwiseSchedule()


def _bands(workload: Conv2dWorkload, machine: Machine, tile_h: int) -> int:
    blocks = workload.out_planes * machine.blocks(workload.in_channels)
    bands: int = row_bands(blocks, workload.out_height // tile_h, machine.cores)
    return bands
