"""im2win on GPUs: a kernel for the window tensor, and the GEMM with the steps of the paper.

1. The window tensor: a thread for each value, neighboring threads for neighbors in memory.
2. ``kernel=tiled``: see :func:`tvmconv.schedules.cuda.block_tile.tiled_product`. Shared memory,
   vectors, accumulators in registers and early copies have a parameter each. ``kernel=base`` is the
   paper's Algorithm 8. Its 32x32 threads have one accumulator each and read all values from global
   memory. Neighboring threads are neighboring channels, as printed. All blocks are along x, which
   has no limit of 65535.

The paper also loads registers ahead. Here the values of a slice are unrolled, and nvcc orders the
loads of registers. Without its micro-kernel a thread has one accumulator of a 32x32 tile.
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
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.cuda.block_tile import stored_sums, tiled_product
from tvmconv.schedules.cuda.implicit_gemm import CudaImplicitGemmSchedule
from tvmconv.schedules.cuda.product_knobs import product_knobs
from tvmconv.schedules.cuda.threads import bind_threads
from tvmconv.tvm_api.types import BlockRV, Schedule

# threads of a block that writes windows
_WRITING = 256
# side of the tile whose threads have one accumulator each
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
                "the window tensor: stored by a separate kernel, or fused into the GEMM",
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
                "neighboring values that a thread reads from shared memory at once",
                lambda w, machine: (1, VECTOR),
                closed=True,
            ),
            Knob(
                "micro",
                "whether a thread has a tile of accumulators in registers (1), or one (0)",
                lambda w, machine: (0, 1),
                closed=True,
            ),
            *product_knobs(EXPRESSION),
        )
    )

    # the ablation of the paper (figure 4-9): its base, the tiled kernel without one step each, and
    # with all steps; then the same without the tensor
    STEPS = (
        {"windows": STORED, "kernel": BASE, **_ONE_SUM},
        {"windows": STORED, "micro": 0, **_ONE_SUM},
        {"windows": STORED, "vector": 1},
        {"windows": STORED, "pipeline": "none"},
        {"windows": STORED},
        {"windows": FUSED},
    )

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The candidate with the fewest predicted cycles."""
        return ConvSchedule.default_config(self, workload, machine)

    def offers(self, workload: Conv2dWorkload, machine: CudaMachine) -> tuple[Config, ...]:
        """The best tiles without the window tensor, and with it if 32 bits index it.

        Without the tensor, slices are runs of windows. Slices of channels would be implicit GEMM.
        """
        kinds = self.EXPRESSION.slice_kinds(workload)
        forms = {FUSED: kinds[1:], STORED: ()}
        if prod(window_shape(workload)) > MOST_VALUES:
            del forms[STORED]
        return tuple(
            best_config(
                self.EXPRESSION,
                workload,
                machine,
                tuple({**_FULL, "windows": form}.items()),
                kinds_of_form,
            )
            for form, kinds_of_form in forms.items()
        )

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """As implicit GEMM; also the limits of 32x32 tiles, and 32-bit indices of windows."""
        super().check(workload, machine, config)
        values = prod(window_shape(workload))
        if config["windows"] == STORED and values > MOST_VALUES:
            raise ConfigError(
                f"the window tensor of {workload} has {values} values. Expected at most "
                f"{MOST_VALUES}. Set windows=fused."
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
    """The paper's base kernel: threads share nothing."""
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
