"""Winograd convolution on GPUs: three kernels, that leave transformed values in global memory.

1. input transform: a thread for each channel of a tile loads the tile, transforms it in registers
   and stores a value of each product; neighbouring threads have neighbouring tiles;
2. products: a matrix product each, in the blocks' tiles of implicit GEMM;
3. output transform: a thread for each channel of a tile, in registers again, with the epilogue;
   rows of pixels are stored as vectors where they are aligned.
"""

from __future__ import annotations

from tvmconv.algorithms.cuda.winograd import Winograd
from tvmconv.algorithms.winograd.tiles import Tiling, tiling
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import winograd
from tvmconv.costs.cuda.blocks import register_blocks, tile_of
from tvmconv.costs.cuda.winograd import (
    best_configs,
    check_config,
    stage_cycles,
    writes_vectors,
)
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.cuda.block_tile import copy_pipeline, deal_tile
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tvm_api.types import BlockRV, LoopRV, Schedule

_VECTOR = 4


class CudaWinogradSchedule(ConvSchedule[CudaMachine]):
    """Three kernels: input transform, products, output transform."""

    KNOBS = winograd.KNOBS

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The tile size and blocks with the fewest predicted cycles."""
        return min(
            self.offers(workload, machine),
            key=lambda c: self.predicted_cycles(workload, machine, c),
        )

    def offers(self, workload: Conv2dWorkload, machine: CudaMachine) -> tuple[Config, ...]:
        """The best config of every tile size: they differ in error and memory."""
        return best_configs(workload, machine)

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """Tiles have points, blocks are whole warps, slices fit into shared memory."""
        check_config(workload, machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.winograd.Winograd` in place."""
        tiles = tiling(workload, config)
        slices = Winograd().packed_weight_shape(workload, machine, config)[2] // config.int("split")
        _transform_output(schedule, tiles, config)
        _multiply(schedule, config, slices)
        _transform_input(schedule, tiles, config)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> dict[str, float]:
        """See :func:`tvmconv.costs.cuda.winograd.stage_cycles`."""
        return stage_cycles(workload, machine, config)

    def blocks_resident(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """See :func:`tvmconv.costs.cuda.blocks.register_blocks`."""
        return register_blocks(machine, config)


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
