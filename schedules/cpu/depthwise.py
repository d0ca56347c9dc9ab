"""Depthwise convolution: unrolled taps of a register tile, separate code for border tiles.

1. Channel blocks run in parallel, and bands of rows if channel blocks are too few.
2. A tile of ``tile_h`` x ``tile_w`` output positions accumulates in registers. Within a kernel row
   the taps of neighboring outputs read the same input vectors, so each is loaded once a row.
3. Tiles at the padding are separate code; the interior has no predicates.
4. The epilogue is applied to the registers before the only store.
"""

from __future__ import annotations

from tvmconv.algorithms.depthwise.depthwise import most_rows_that_share, rows_of_word, word_rows
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.depthwise import UNROLL_LIMIT, holds_row, kept_columns, overlapping, widest
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.tile_knobs import TILE_ROWS
from tvmconv.costs.cuts import balanced
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.threads import band_tiles, row_bands
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_taps
from tvmconv.tvm_api.types import Schedule

# columns of a tile whose steps are dwords of several rows; vectors that are narrowed at once
_DWORDS_TILE, _NARROWED = 8, 4
# accumulators of a tile whose rows share dwords; half of them if the weights exceed the registers
_MOST_SUMS, _KEPT_WEIGHTS = 16, 8
# share of L2's rate that is reached with so few FMAs between loads
_L2_SHARE = 4 / 9


KNOBS: Knobs[Conv2dWorkload] = Knobs(
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


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """A whole row if it fits the registers, else the widest balanced part of a row.

    Out-of-order cores hide a tile's latency with the next tile. For in-order cores and integer
    accumulators, rows are added until the latency is hidden. If loads block FMAs, tiles instead
    have rows that share their loads.
    """
    tile_w = balanced(workload.out_width, kept_columns(workload, machine))
    if rows_of_word(workload, machine) > 1:
        # Weights come from memory, so that a tile needs few registers. Four vectors of accumulators
        # are narrowed to one: in tiles of six the last two took nearly as many instructions.
        tile_w = -(-balanced(workload.out_width, _DWORDS_TILE) // _NARROWED) * _NARROWED
        tile_w = min(tile_w, workload.out_width)
    rows = max(1, min(machine.minimum_accumulators // tile_w, workload.out_height))
    # loads block FMAs of in-order cores only
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


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """The tile's accumulators, one input and one weight vector fit the register file."""
    tile_h, tile_w, bands = (config.int(name) for name in ("tile_h", "tile_w", "bands"))
    if min(tile_h, tile_w, bands) < 1:
        raise ConfigError(f"depthwise {workload}: knobs must be positive, got {config}")
    tile = f"depthwise {workload}: tile {tile_h}x{tile_w}"
    check_registers(machine, tile_h * tile_w + 2, tile)


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
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


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """The maximum of the FMAs and of the input and output traffic from L2."""
    return max(arithmetic_cycles(workload, machine), traffic_cycles(workload, machine))


def arithmetic_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles of the FMAs."""
    vectors = workload.out_planes * machine.blocks(workload.in_channels)
    fma = workload.out_height * workload.out_width * workload.taps / machine.rates.multiply_adds
    return vectors * fma / min(machine.cores, vectors)


def traffic_cycles(workload: Conv2dWorkload, machine: Machine) -> float:
    """Cycles of transferring input and output from and to L2."""
    vectors = workload.out_planes * machine.blocks(workload.in_channels)
    # 3-D: planes are read again for every tap along the depth, mostly from L2
    pixels_in = workload.in_height * workload.in_width * workload.kernel_d
    pixels_out = workload.out_height * workload.out_width
    types = workload.types
    elements = pixels_in * itemsize(types.data) + 2 * pixels_out * itemsize(types.output)
    moved = elements * machine.channel_block
    return vectors * moved / (_L2_SHARE * machine.rates.l2) / min(machine.cores, vectors)


def _bands(workload: Conv2dWorkload, machine: Machine, tile_h: int) -> int:
    blocks = workload.out_planes * machine.blocks(workload.in_channels)
    bands: int = row_bands(blocks, workload.out_height // tile_h, machine.cores)
    return bands
