"""Winograd convolution on GPUs: three kernels, with transformed values in global memory.

1. input transform: a thread loads one channel of a tile, transforms it in registers, and stores a
   value of each product. Neighboring threads have neighboring tiles;
2. products: a GEMM each, in the blocks' tiles of implicit GEMM;
3. output transform: a thread transforms one channel of a tile in registers and applies the
   epilogue. Aligned rows of pixels are stored as vectors.
"""

from __future__ import annotations

from tvmconv.algorithms.cuda.winograd import Winograd
from tvmconv.algorithms.winograd.tiles import Tiling, tiling
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import winograd
from tvmconv.costs.cuda.blocks import register_blocks, tile_of
from tvmconv.costs.cuda.winograd import best_configs, check_config, stage_cycles, writes_vectors
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.cuda.block_tile import copy_pipeline, deal_tile
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

_VECTOR = 4


class CudaWinogradSchedule(ConvSchedule[CudaMachine]):
    """Three kernels: input transform, products, output transform."""

    KNOBS = winograd.KNOBS

    offers = staticmethod(best_configs)
    check = staticmethod(check_config)
    explain_cost = staticmethod(stage_cycles)

    def blocks_resident(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """See :func:`tvmconv.costs.cuda.blocks.register_blocks`."""
        return register_blocks(machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.winograd.Winograd` in place."""
        tiles = tiling(workload, config)
        slices = Winograd().packed_weight_shape(workload, machine, config)[2] // config.int("split")
        _transform_output(schedule, tiles, config)
        _multiply(schedule, config, slices)
        _transform_input(schedule, tiles, config)


SCHEDULE = CudaWinogradSchedule()


def _transform_input(schedule: Schedule, tiles: Tiling, config: Config) -> None:
    transformed = schedule.get_sblock("transform")
    product, g, c, t = schedule.get_loops(transformed)
    row, column = schedule.split(product, [tiles.vertical.n, tiles.horizontal.n])
    schedule.reorder(g, c, t, row, column)
    thread = bind_threads(schedule, (g, c, t), config.int("threads"))
    for name in ("columns", "patch"):
        _in_registers(schedule, schedule.get_sblock(name), thread)
    for loop in (row, column):
        schedule.unroll(loop)


def _multiply(schedule: Schedule, config: Config, slices: int) -> None:
    sums, tile = schedule.get_sblock("conv2d"), tile_of(config)
    stored = schedule.cache_write(sums, 0, "local")
    values = schedule.cache_read(sums, 1, "shared")
    sums, part, value = deal_tile(schedule, sums, stored, tile, vector=True)
    copy_pipeline(
        schedule,
        sums,
        values,
        tile,
        part,
        value,
        lanes=_VECTOR,
        pipeline=str(config["pipeline"]) if slices > 1 else "none",
    )


def _transform_output(schedule: Schedule, tiles: Tiling, config: Config) -> None:
    output = schedule.get_sblock("output")
    n, k, h, x = schedule.get_loops(output)
    th, i = schedule.split(h, [None, tiles.mh])
    tw, j = schedule.split(x, [None, tiles.mw])
    schedule.reorder(k, n, th, tw, i, j)
    thread = bind_threads(schedule, (k, n, th, tw), config.int("threads"))
    for name in ("pixels", "rows", "parts"):
        _in_registers(schedule, schedule.get_sblock(name), thread)
    schedule.unroll(i)
    (schedule.vectorize if writes_vectors(tiles) else schedule.unroll)(j)


def _in_registers(schedule: Schedule, block: BlockRV, thread: LoopRV) -> None:
    """Compute a block in its thread; its values are registers."""
    schedule.set_scope(block, 0, "local")
    schedule.compute_at(block, thread, preserve_unit_loops=True)
    for loop in schedule.get_loops(block)[2:]:
        schedule.unroll(loop)
