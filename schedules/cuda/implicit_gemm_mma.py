"""Implicit GEMM on tensor cores: each block computes a tile of the product, its warps parts of it.

1. blocks of threads: parts of a split reduction, groups, tiles of pixels, tiles of channels;
2. slices of the reduction: weights and rounded input are copied to shared memory. While this slice
   is multiplied, the next slice is loaded to registers, and then stored to the other buffer;
3. warps, next to each other; lanes of a warp are ``threadIdx.x``, warps ``threadIdx.y``;
4. steps of 8 dwords: a warp loads fragments and multiplies each by each. Weights are loaded by
   vectors of four dwords, columns by vectors of two.
"""

from __future__ import annotations

from collections.abc import Callable

from tvmconv.algorithms.cuda.implicit_gemm import slices_of
from tvmconv.algorithms.cuda.implicit_gemm_mma import ImplicitGemmMma, precision_of
from tvmconv.algorithms.cuda.precision import PRECISIONS
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.mma import (
    best_config,
    check_tile,
    part_counts,
    resident_blocks,
    slice_sizes,
    tile_cycles,
    tile_of,
)
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.cuda.block_tile import add_parts
from tvmconv.schedules.cuda.mma_tile import copy_slices, load_fragments, multiply, store_sums
from tvmconv.tvm_api.types import Expr, Schedule


class CudaImplicitGemmMmaSchedule(ConvSchedule[CudaMachine]):
    """One tile of the product for each block, on tensor cores."""

    KNOBS = Knobs(
        (
            Knob(
                "precision",
                "type to which operands are rounded; accumulators are FP32",
                lambda w, machine: tuple(PRECISIONS),
                closed=True,
            ),
            Knob("m", "output channels of a block's tile", lambda w, machine: (32, 64, 128)),
            Knob("p", "pixels of a block's tile", lambda w, machine: (64, 128)),
            Knob("wm", "output channels of a warp's part of the tile", lambda w, machine: (32, 64)),
            Knob("wp", "pixels of a warp's part of the tile", lambda w, machine: (16, 32, 64)),
            Knob("k", "values of a slice of the reduction", slice_sizes),
            Knob(
                "slice",
                "what a slice holds: channels of one tap, or all channels of a row or of the "
                "window",
                lambda w, machine: ImplicitGemmMma().slice_kinds(w),
                closed=True,
            ),
            Knob("split", "parts of the reduction, a divisor of the slices", part_counts),
            Knob(
                "pipeline",
                "buffers of a slice: two, filled through registers; one, likewise; one, filled at "
                "once",
                lambda w, machine: ("double", "single", "none"),
                closed=True,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The tile, slices and parts with the fewest predicted cycles in TF32."""
        return best_config(workload, machine, "tf32")

    def offers(self, workload: Conv2dWorkload, machine: CudaMachine) -> tuple[Config, ...]:
        """The best configuration of each precision."""
        return tuple(best_config(workload, machine, precision) for precision in PRECISIONS)

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """Warps share tiles, slices are whole steps and fit, and parts divide the slices."""
        check_tile(workload, machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of
        :class:`tvmconv.algorithms.cuda.implicit_gemm_mma.ImplicitGemmMma`."""
        from tvmconv.tvm_api.tirx import IndexMap

        tile = tile_of(config)
        area = workload.out_height * workload.out_width
        schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
        output = schedule.get_sblock("output")
        paired = config.int("split") == 1 and workload.out_planes * area % 2 == 0
        if config.int("split") > 1:
            add_parts(schedule, output, area)
            stored = schedule.cache_write(schedule.get_sblock("conv2d"), 0, "warp")
        else:
            pixels = IndexMap.from_func(_pixels(area, paired), index_dtype="int32")
            schedule.transform_block_layout(output, pixels)
            stored = output
        block, columns = schedule.get_sblock("conv2d"), schedule.get_sblock("columns")
        z, g, m, p, part, step, dword = schedule.get_loops(block)
        bm, warp_m, tile_m, row = schedule.split(m, [None, *tile.splits_m])
        bp, warp_p, tile_p, column = schedule.split(p, [None, *tile.splits_p])
        order = (z, g, bp, bm, warp_m, warp_p, part, step, tile_m, tile_p, row, column, dword)
        schedule.reorder(*order)
        schedule.bind(schedule.fuse(z, g, bp, bm), "blockIdx.x")
        warp = schedule.fuse(warp_m, warp_p)
        schedule.bind(warp, "threadIdx.y")
        store_sums(schedule, block, stored, warp, paired=paired)
        more = slices_of(workload, config).count > config.int("split")
        pipeline = str(config["pipeline"]) if more else "none"
        loads = copy_slices(schedule, block, columns, tile, part, step, pipeline=pipeline)
        load_fragments(schedule, *loads)
        multiply(schedule, block, part, precision_of(config))

    explain_cost = staticmethod(tile_cycles)
    blocks_resident = staticmethod(resident_blocks)


def _pixels(area: int, paired: bool) -> Callable[[Expr, Expr, Expr, Expr], tuple[Expr, ...]]:
    """The place of an output value: its group, its channel, and its pixel or pair of pixels.

    Pairs of an odd ``area`` are not neighbors in memory where an image begins. They keep TVM from
    simplifying eight pixels to one fragment, whose lanes LowerWarpMemory does not find.
    """
    if not paired:
        return lambda n, g, m, q: (g, m, n * area + q)
    if area % 2:
        return lambda n, g, m, q: (g, m, (n * area + q) // 2, (n * area + q) % 2)
    return lambda n, g, m, q: (g, m, n * (area // 2) + q // 2, q % 2)


SCHEDULE = CudaImplicitGemmMmaSchedule()
