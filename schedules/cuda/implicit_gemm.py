"""Implicit GEMM on GPUs: a tile of the product for each block of threads.

1. blocks of threads: parts of a split reduction, groups, tiles of pixels, tiles of channels;
2. slices of the reduction: weights and gathered input come to shared memory, the next slice to
   registers while this one is multiplied, and from there to the other of two buffers;
3. warps, side by side; a warp has 32 or 16 channels by 64 pixels;
4. values of a slice: a thread has 8x8 or 4x8 sums in registers, in pieces of 4x4 that lie apart
   so that a warp reads shared memory by vectors and without conflicts of banks.
"""

from __future__ import annotations

from tvmconv.algorithms.cuda.implicit_gemm import VECTOR, reads_vectors, slices_of
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.block_tile import BlockTile
from tvmconv.costs.cuda_blocks import PIPELINE_KNOB, ROWS_KNOB, columns_knob
from tvmconv.costs.cuda_tiles import (
    best_config,
    check_tile,
    part_counts,
    slice_kinds,
    slice_sizes,
    tile_cycles,
)
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.cuda.block_tile import add_parts, bind_tile, copy_pipeline, store_tile
from tvmconv.tvm_api.types import Schedule

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        ROWS_KNOB,
        columns_knob("pixels"),
        Knob("k", "values of a slice of the reduction", slice_sizes),
        Knob(
            "slice",
            "what a slice holds: channels of one tap, or all channels of a row or of the window",
            slice_kinds,
            closed=True,
        ),
        Knob("split", "parts of the reduction, a divisor of the slices", part_counts),
        PIPELINE_KNOB,
    )
)


def default_config(workload: Conv2dWorkload, machine: CudaMachine) -> Config:
    """The tile, slices and parts with the fewest predicted cycles."""
    return best_config(workload, machine)


def check(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Tiles are whole warps, slices fit into shared memory, and parts divide the slices."""
    check_tile(workload, machine, config)


def apply(
    schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.cuda.implicit_gemm.ImplicitGemm`."""
    from tvmconv.tvm_api.tirx import IndexMap

    tile = BlockTile(config.int("m"), config.int("p"))
    area = workload.out_height * workload.out_width
    schedule.reverse_compute_inline(schedule.get_sblock("unflatten"))
    output = schedule.get_sblock("output")
    if config.int("split") > 1:
        add_parts(schedule, output, area)
        stored = schedule.cache_write(schedule.get_sblock("conv2d"), 0, "local")
    else:
        pixels = IndexMap.from_func(lambda n, g, m, q: (g, m, n * area + q), index_dtype="int32")
        schedule.transform_block_layout(output, pixels)
        stored = output
    block, columns = schedule.get_sblock("conv2d"), schedule.get_sblock("columns")
    slices = slices_of(workload, config)
    thread, part, value = bind_tile(schedule, block, tile)
    store_tile(
        schedule, block, stored, thread, vector=config.int("split") > 1 or area % VECTOR == 0
    )
    copy_pipeline(
        schedule,
        block,
        columns,
        tile,
        part,
        value,
        lanes=VECTOR if reads_vectors(workload) else 1,
        pipeline=str(config["pipeline"]) if slices.count > config.int("split") else "none",
    )


def predicted_cycles(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> float:
    """Cycles of one call, as :func:`explain_cost` counts them."""
    return sum(explain_cost(workload, machine, config).values())


def explain_cost(
    workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> dict[str, float]:
    """See :func:`tvmconv.costs.cuda_tiles.tile_cycles`."""
    return tile_cycles(workload, machine, config)
