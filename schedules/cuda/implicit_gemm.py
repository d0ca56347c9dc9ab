"""Implicit GEMM on GPUs: each block computes a tile of the product and gathers its slices.

See :func:`tvmconv.schedules.cuda.block_tile.tiled_product`. A warp has 32 or 16 channels by 64
pixels. A thread has 8x8 or 4x8 accumulators in registers, in pieces of 4x4.
"""

from __future__ import annotations

from typing import ClassVar

from tvmconv.algorithms.cuda.implicit_gemm import VECTOR, ImplicitGemm, reads_vectors
from tvmconv.core.config import Config
from tvmconv.core.knobs import Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.blocks import register_blocks
from tvmconv.costs.cuda.tiles import best_config, check_tile, tile_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.cuda.block_tile import tiled_product
from tvmconv.schedules.cuda.product_knobs import product_knobs
from tvmconv.tvm_api.types import Schedule


class CudaImplicitGemmSchedule(ConvSchedule[CudaMachine]):
    """One tile of the product for each block of threads; ``EXPRESSION`` defines the slices."""

    EXPRESSION: ClassVar[ImplicitGemm] = ImplicitGemm()
    KNOBS = Knobs(product_knobs(EXPRESSION))

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The tile, slices and parts with the fewest predicted cycles."""
        return best_config(self.EXPRESSION, workload, machine)

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """Tiles are whole warps, slices fit into shared memory, and parts divide the slices."""
        check_tile(self.EXPRESSION, workload, machine, config)

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.implicit_gemm.ImplicitGemm`."""
        tiled_product(
            schedule,
            workload,
            config,
            schedule.get_sblock("columns"),
            self.EXPRESSION.slices(workload, config).count,
            lanes=VECTOR if reads_vectors(workload) else 1,
        )

    def explain_cost(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> dict[str, float]:
        """See :func:`tvmconv.costs.cuda.tiles.tile_cycles`."""
        return tile_cycles(self.EXPRESSION, workload, machine, config)

    def blocks_resident(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """See :func:`tvmconv.costs.cuda.blocks.register_blocks`."""
        return register_blocks(machine, config)


SCHEDULE = CudaImplicitGemmSchedule()
