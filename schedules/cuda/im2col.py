"""im2col and a GEMM on GPUs: one kernel for each.

1. The matrix of windows: a thread for each value, neighboring threads for neighboring pixels.
2. The GEMM of :func:`tvmconv.schedules.cuda.block_tile.tiled_product`, which reads the matrix by
   vectors.
"""

from __future__ import annotations

from tvmconv.algorithms.cuda.base import MOST_VALUES
from tvmconv.algorithms.cuda.im2col import Im2col
from tvmconv.algorithms.cuda.implicit_gemm import VECTOR
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.cuda.block_tile import tiled_product
from tvmconv.schedules.cuda.implicit_gemm import CudaImplicitGemmSchedule
from tvmconv.schedules.cuda.product_knobs import product_knobs
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tvm_api.types import Schedule

# threads of a block that writes the matrix
_WRITING = 256


class CudaIm2colSchedule(CudaImplicitGemmSchedule):
    """One kernel for the matrix of windows, one for the product."""

    EXPRESSION = Im2col()
    KNOBS = Knobs(product_knobs(EXPRESSION))

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """As implicit GEMM; indices of the matrix, with the zeros around it, fit 32 bits."""
        super().check(workload, machine, config)
        if (values := self.EXPRESSION.stored_bytes(workload, config) // 4) > MOST_VALUES:
            raise ConfigError(
                f"the matrix of {workload} has {values} values. Expected at most {MOST_VALUES}. "
                "Use smaller tiles or slices, or another algorithm."
            )

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.im2col.Im2col` in place."""
        columns = schedule.get_sblock("columns")
        bind_threads(schedule, schedule.get_loops(columns), _WRITING)
        read = schedule.cache_read(schedule.get_sblock("conv2d"), 1, "shared")
        slices = self.EXPRESSION.slices(workload, config).count
        tiled_product(schedule, workload, config, read, slices, lanes=VECTOR)


SCHEDULE = CudaIm2colSchedule()
