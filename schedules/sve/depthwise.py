"""Depthwise convolution by scalable vectors: some rows of several vectors of positions.

In input, weights and output a segment has the four channels of a block, so that taps are plain
FMAs. Rows of a tile share their loads. Strided positions are gathered, which by estimates takes
longer than NEON's loads. NEON code is then the default.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.scalable.direct import gather_cycles
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.threads import band_tiles, row_bands
from tvmconv.schedules.cpu import depthwise as neon
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_segments, mark_taps
from tvmconv.tvm_api.types import Schedule

_MOST_VECTORS, _MOST_ROWS = 4, 4
# accumulators and vectors of default tiles, beyond which LLVM spilled. For gathered positions: rows
# for kernels of up to 3 columns, and for wider kernels
_MOST_SUMS, _WIDEST = 4, 2
_GATHERED_ROWS = (3, 1)
# masks that fit the predicate registers that loads can use
_PREDICATES = 6
# FMAs of one unrolled tile
_UNROLL_LIMIT = 256
# registers in addition to accumulators: one for input, one for weights
_OPERANDS = 2
# cycles for addresses and predicates of a tile
_TILE_CYCLES = 6.0

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        *neon.KNOBS,
        Knob(
            "vectors",
            "scalable vectors of pixels of the register tile; 0: NEON code of tile_w pixels",
            lambda w, machine: range(_MOST_VECTORS + 1 if _takes(w) else 1),
            neutral=0,
        ),
    ),
    retired=neon.KNOBS.retired,
)


def _takes(workload: Conv2dWorkload) -> bool:
    """Whether scalable vectors support the layer's types."""
    return bool(workload.types == FLOAT32)


def default_config(workload: Conv2dWorkload, machine: Machine) -> Config:
    """The cheapest configuration with tiles of whole vectors, or with NEON code."""
    return min(offers(workload, machine), key=lambda c: _cost(workload, machine, c))


def offers(workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
    """The best configuration of scalable code, if the layer has it, and of NEON code."""
    tiles = []
    for rows, vectors in _tiles(workload, machine):
        bands = _bands(workload, machine, rows)
        tile = Config.of(tile_h=rows, tile_w=1, bands=bands, vectors=vectors)
        tiles.append(KNOBS.complete(tile))
    fixed = KNOBS.complete(neon.default_config(workload, machine))
    return *sorted(tiles, key=lambda c: _cost(workload, machine, c))[:1], fixed


def _cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> tuple[float, float]:
    """Cycles in all and of arithmetic; if L2 hides the difference, data may still be in L1."""
    cycles = predicted_cycles(workload, machine, config)
    return cycles, _arithmetic_cycles(workload, machine, config)


def _tiles(workload: Conv2dWorkload, machine: Machine) -> Iterator[tuple[int, int]]:
    """Rows and vectors of tiles whose values fit the registers, and masks the predicates."""
    w = workload
    if not _takes(w):
        return
    # taps that read outside the image have their own masks; the others share one
    last = (w.out_width - 1) + (w.kernel_w - 1) * w.dilation_w - w.pad_left
    masks = w.kernel_w if w.pad_left or last >= w.in_width else 1
    most = min(_WIDEST, _PREDICATES // masks, ceil(w.out_width / machine.segments))
    sums = _MOST_SUMS
    if w.stride_w > 1:
        most, sums = min(most, 1), _GATHERED_ROWS[w.kernel_w > 3]
    for vectors in range(1, most + 1):
        for rows in range(1, min(_MOST_ROWS, w.out_height, sums // vectors) + 1):
            if rows * vectors * w.kernel_h * w.kernel_w <= _UNROLL_LIMIT:
                yield rows, vectors


def check(workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """The tile's accumulators and operands fit the register file."""
    neon.check(workload, machine, config)
    vectors = config.int("vectors")
    if not vectors:
        return
    tile = f"depthwise {workload}: tile tile_h={config['tile_h']} vectors={vectors}"
    if not _takes(workload):
        raise ConfigError(f"{tile}: scalable vectors support only float32 layers")
    if not 0 < vectors <= _MOST_VECTORS or config.int("tile_w") != 1:
        raise ConfigError(f"{tile}: vectors may be up to {_MOST_VECTORS}, and tile_w is NEON's, 1")
    check_registers(machine, config.int("tile_h") * vectors + _OPERANDS, tile)


def apply(schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
    """Schedule the function of :class:`tvmconv.algorithms.depthwise.depthwise.Depthwise`."""
    if not config.int("vectors"):
        neon.apply(schedule, workload, machine, config)
        return
    rows, bands = config.int("tile_h"), config.int("bands")
    block, output = schedule.get_sblock("depthwiseconv2d"), schedule.get_sblock("output")
    n, b, h, x, lane, *depth, r, s = schedule.get_loops(block)
    ho, hi = schedule.split(h, [None, rows])
    band, ho = schedule.split(ho, [None, band_tiles(workload.out_height, rows, bands)])
    schedule.reorder(n, b, band, ho, x, *depth, r, s, hi, lane)
    mark_parallel(schedule, n, b, band)
    mark_cases(schedule, ho)
    first = (*depth, r)[0]
    register_tile(schedule, block, output, at=x, reduction=first, tile=(hi,), lane=lane)
    taps = rows * config.int("vectors") * workload.kernel_w
    for loop, unrolled in ((s, taps), (r, taps * workload.kernel_h)):
        if unrolled <= _UNROLL_LIMIT:
            schedule.unroll(loop)
    for loop in (*depth, r):
        mark_taps(schedule, loop)
    mark_segments(schedule, x, config.int("vectors"))


def predicted_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """The maximum of the tiles' instructions and, as for NEON code, of the traffic from L2."""
    moved: float = neon.traffic_cycles(workload, machine)
    return max(_arithmetic_cycles(workload, machine, config), moved)


def _arithmetic_cycles(workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
    """Cycles of the instructions."""
    vectors, rows, w = config.int("vectors"), config.int("tile_h"), workload
    if not vectors:
        fixed: float = neon.arithmetic_cycles(w, machine)
        return fixed
    sums = w.taps * rows * vectors / (machine.rates.multiply_adds * machine.vector.rate)
    # rows of the tile share the rows that they read
    read = w.kernel_w * (rows + w.kernel_h - 1) * vectors + w.kernel_h * w.kernel_w
    loaded = w.kernel_d * read / machine.load_ports
    if w.stride_w > 1:
        # positions are gathered; rows that a stride skips are not shared
        rows_read = max((rows - 1) * w.stride_h + w.kernel_h, rows)
        loaded = w.kernel_d * w.kernel_w * rows_read * vectors * gather_cycles(machine)
    tile = max(sums, loaded) + _TILE_CYCLES
    tiles = ceil(w.out_width / (vectors * machine.segments)) * ceil(w.out_height / rows)
    blocks = w.out_planes * machine.blocks(w.in_channels)
    return blocks * tiles * tile / min(machine.cores, blocks)


def _bands(workload: Conv2dWorkload, machine: Machine, rows: int) -> int:
    blocks = workload.out_planes * machine.blocks(workload.in_channels)
    bands: int = row_bands(blocks, workload.out_height // rows, machine.cores)
    return bands
