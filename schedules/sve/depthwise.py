"""Depthwise convolution by scalable vectors: some rows of several vectors of pixels.

A segment has the four channels of a block in input, weights and output, so that taps are plain
FMAs. Rows of a tile share what they load. With a stride along rows, pixels are gathered. By
estimates that takes longer than loads of NEON code, which is then the default.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cpu.depthwise import traffic_cycles
from tvmconv.costs.cpu.microkernel import check_registers
from tvmconv.costs.cpu.partition import band_tiles
from tvmconv.costs.parts import slowest
from tvmconv.costs.scalable.depthwise import arithmetic_cycles
from tvmconv.machines.record import Machine
from tvmconv.schedules.common.microkernel import register_tile
from tvmconv.schedules.common.threads import row_bands
from tvmconv.schedules.cpu.depthwise import SCHEDULE as NEON
from tvmconv.schedules.sve.layers import check_vectors, fills_segments, vectors_knob
from tvmconv.schedules.sve.scalable import ScalableSchedule
from tvmconv.tir.annotations import mark_cases, mark_parallel, mark_segments, mark_taps
from tvmconv.tvm_api.types import Schedule

_MOST_VECTORS, _MOST_ROWS = 4, 4
# Accumulators and vectors of default tiles, beyond which LLVM spilled some. Rows of tiles with
# gathered pixels, for kernels of up to 3 columns and for wider ones.
_MOST_SUMS, _WIDEST = 4, 2
_GATHERED_ROWS = (3, 1)
# masks that stay in the predicates that loads can use
_PREDICATES = 6
# FMAs of one tile that are unrolled
_UNROLL_LIMIT = 256
# registers in addition to accumulators: one of input, one of weights
_OPERANDS = 2


class SveDepthwiseSchedule(ScalableSchedule):
    """Rows of scalable vectors of pixels, or NEON code."""

    FALLBACK = NEON
    KNOBS = Knobs(
        (
            *NEON.KNOBS,
            vectors_knob(
                "scalable vectors of pixels of the register tile; 0: NEON code of tile_w pixels",
                lambda w, machine: _MOST_VECTORS,
            ),
        ),
        retired=NEON.KNOBS.retired,
    )

    def default_config(self, workload: Conv2dWorkload, machine: Machine) -> Config:
        """The cheapest of tiles of whole vectors and of NEON code."""
        return min(self.offers(workload, machine), key=lambda c: _cost(workload, machine, c))

    def offers(self, workload: Conv2dWorkload, machine: Machine) -> tuple[Config, ...]:
        """The best of scalable code, if a layer has it, and of NEON code."""
        tiles = []
        for rows, vectors in _tiles(workload, machine):
            blocks = workload.out_planes * machine.blocks(workload.out_channels)
            bands = row_bands(blocks, workload.out_height // rows, machine.cores)
            tile = Config.of(tile_h=rows, tile_w=1, bands=bands, vectors=vectors)
            tiles.append(self.KNOBS.complete(tile))
        fixed = self.KNOBS.complete(NEON.default_config(workload, machine))
        return *sorted(tiles, key=lambda c: _cost(workload, machine, c))[:1], fixed

    def check_scalable(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> None:
        """The tile's sums and operands fit the register file."""
        NEON.check(workload, machine, config)
        vectors = config.int("vectors")
        tile = f"depthwise {workload}: tile tile_h={config['tile_h']} vectors={vectors}"
        check_vectors(workload, vectors, _MOST_VECTORS, tile)
        if config.int("tile_w") != 1:
            raise ConfigError(
                f"{tile} has tile_w={config['tile_w']}. Expected 1, as tile_w is for NEON code. "
                "Set tile_w=1."
            )
        check_registers(machine, config.int("tile_h") * vectors + _OPERANDS, tile)

    def apply_scalable(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> None:
        """Schedule the function of :class:`tvmconv.algorithms.depthwise.depthwise.Depthwise`."""
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

    def scalable_cost(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> dict[str, float]:
        """The slower of the tiles' instructions and NEON's traffic from L2."""
        return slowest(
            arithmetic=arithmetic_cycles(workload, machine, config),
            memory=traffic_cycles(workload, machine),
        )

    # one model serves both kinds of vectors
    neon_cost = scalable_cost


SCHEDULE = SveDepthwiseSchedule()


def _cost(workload: Conv2dWorkload, machine: Machine, config: Config) -> tuple[float, float]:
    """Predicted cycles, then arithmetic cycles: the model assumes L2, small layers fit L1."""
    cycles = SCHEDULE.predicted_cycles(workload, machine, config)
    return cycles, arithmetic_cycles(workload, machine, config)


def _tiles(workload: Conv2dWorkload, machine: Machine) -> Iterator[tuple[int, int]]:
    """Rows and vectors of tiles whose values stay in registers, and masks in predicates."""
    w = workload
    if not fills_segments(w):
        return
    # taps that read outside the image have a mask each, and the others share one mask
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
