"""im2win on GPUs: a kernel for the window tensor, and the product with the steps of the source.

1. The window tensor: a thread for each value, neighbours for neighbours in memory.
2. ``kernel=tiled``: see :func:`tvmconv.schedules.cuda.block_tile.tiled_product`. Tiles in shared
   memory, vectors, sums in registers and the copies ahead are a knob each.
   ``kernel=base`` is the source's Algorithm 8: 32x32 threads with one sum each, which read
   everything from global memory; neighbouring threads are neighbouring channels, as printed.
   Blocks are all along x, which has no limit of 65535.

The source loads registers ahead, too; here the values of a slice are written out, and nvcc orders
the loads of registers. Without its micro-kernel a thread has one sum, of a tile of 32x32.
"""

from __future__ import annotations

from math import prod

from tvmconv.algorithms.cuda.base import MOST_VALUES
from tvmconv.algorithms.cuda.im2win import FUSED, STORED, Im2win, window_shape
from tvmconv.algorithms.cuda.implicit_gemm import VECTOR, reads_vectors
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.threads import sum_cycles
from tvmconv.costs.cuda.tiles import best_config
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.cuda.block_tile import stored_sums, tiled_product
from tvmconv.schedules.cuda.implicit_gemm import CudaImplicitGemmSchedule
from tvmconv.schedules.cuda.product_knobs import product_knobs
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tvm_api.types import BlockRV, Schedule

# threads of a block that writes windows
_WRITING = 256
# side of the tile whose threads have one sum each
_SIDE = 32
TILED, BASE = "tiled", "base"
_FULL = {"kernel": TILED, "vector": VECTOR, "micro": 1}
# so many blocks need no parts of the reduction
_ONE_SUM = {"m": _SIDE, "p": _SIDE, "split": 1}


class CudaIm2winSchedule(CudaImplicitGemmSchedule):
    """One kernel for the window tensor, one for the product."""

    EXPRESSION = Im2win()
    KNOBS = Knobs(
        (
            Knob(
                "windows",
                "the window tensor: stored by a kernel of its own, or fused into the product",
                lambda w, machine: (STORED, FUSED),
                closed=True,
            ),
            Knob(
                "kernel",
                "tiles in shared memory, or the base kernel, a sum for each of 32x32 threads",
                lambda w, machine: (TILED, BASE),
                closed=True,
            ),
            Knob(
                "vector",
                "neighbouring values that a thread reads of shared memory at once",
                lambda w, machine: (1, VECTOR),
                closed=True,
            ),
            Knob(
                "micro",
                "whether a thread has a tile of sums in registers (1), or one sum (0)",
                lambda w, machine: (0, 1),
                closed=True,
            ),
            *product_knobs(EXPRESSION),
        )
    )

    # the ablation of the paper (figure 4-9): its base, the tiled kernel less one step each, and
    # whole; then without the tensor
    STEPS = (
        {"windows": STORED, "kernel": BASE, **_ONE_SUM},
        {"windows": STORED, "micro": 0, **_ONE_SUM},
        {"windows": STORED, "vector": 1},
        {"windows": STORED, "pipeline": "none"},
        {"windows": STORED},
        {"windows": FUSED},
    )

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The offer with the fewest predicted cycles."""
        return min(
            self.offers(workload, machine),
            key=lambda c: self.predicted_cycles(workload, machine, c),
        )

    def offers(self, workload: Conv2dWorkload, machine: CudaMachine) -> tuple[Config, ...]:
        """The best tiles without the window tensor, and with it where it can be indexed.

        Of the first, slices are runs of windows: by channels of a tap it would be implicit GEMM.
        """
        kinds = self.EXPRESSION.slice_kinds(workload)
        forms = {FUSED: kinds[1:], STORED: ()}
        if prod(window_shape(workload)) > MOST_VALUES:
            del forms[STORED]
        fixed = {form: tuple({**_FULL, "windows": form}.items()) for form in forms}
        return tuple(
            best_config(self.EXPRESSION, workload, machine, fixed[form], forms[form])
            for form in forms
        )

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """As implicit GEMM; threads of one sum have a tile of 32x32, windows 32-bit indices."""
        super().check(workload, machine, config)
        values = prod(window_shape(workload))
        if config["windows"] == STORED and values > MOST_VALUES:
            raise ConfigError(
                f"the window tensor of {workload} has {values} values, and kernels index "
                f"{MOST_VALUES}: take windows=fused"
            )

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.im2win.Im2win` in place."""
        columns = schedule.get_sblock("columns")
        if config["windows"] == STORED:
            bind_threads(schedule, schedule.get_loops(schedule.get_sblock("windows")), _WRITING)
        if config["kernel"] == BASE:
            _one_sum_each(schedule, workload, config, columns)
            return
        lanes = VECTOR if config["windows"] == FUSED and reads_vectors(workload) else 1
        slices = self.EXPRESSION.slices(workload, config).count
        tiled_product(schedule, workload, config, columns, slices, lanes=lanes)

    def explain_cost(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> dict[str, float]:
        """As implicit GEMM, except for the arithmetic of the base kernel."""
        found = super().explain_cost(workload, machine, config)
        if config["kernel"] == BASE:
            sums = prod(workload.result_shape)
            found = {**found, "arithmetic": sum_cycles(sums, workload.taps, machine)}
        return found


SCHEDULE = CudaIm2winSchedule()


def _one_sum_each(
    schedule: Schedule, workload: Conv2dWorkload, config: Config, columns: BlockRV
) -> None:
    """The source's base kernel: nothing is shared between threads."""
    schedule.compute_inline(columns)
    stored = stored_sums(schedule, workload, config.int("split"))
    block = schedule.get_sblock("conv2d")
    z, g, m, p, part, value = schedule.get_loops(block)
    bm, channel = schedule.split(m, [None, _SIDE])
    bp, pixel = schedule.split(p, [None, _SIDE])
    schedule.reorder(z, g, bp, bm, pixel, channel, part, value)
    schedule.bind(schedule.fuse(z, g, bp, bm), "blockIdx.x")
    schedule.bind(pixel, "threadIdx.y")
    schedule.bind(channel, "threadIdx.x")
    schedule.set_scope(block, 0, "local")
    schedule.reverse_compute_at(stored, channel, preserve_unit_loops=True)
