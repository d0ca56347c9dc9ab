"""One thread for each output value, neighboring threads for neighboring pixels; or one block.

With few values, a thread for each would leave most of the GPU without work, and neighbors would
read distant addresses. With ``share``, a block of threads sums each value.
"""

from __future__ import annotations

from math import prod

from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.memory import memory_cycles, waiting_cycles
from tvmconv.costs.cuda.threads import sum_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.conv_schedule import ConvSchedule
from tvmconv.schedules.common.nest import inspect
from tvmconv.schedules.cuda.threads import bind_threads, check_threads, share_sums
from tvmconv.tvm_api.types import Schedule

# threads that share a sum; with 1 no threads share
_SHARED = (1, 32, 64, 128, 256)
# blocks for results that 128 does not divide
_SMALLER = (64, 32)


class CudaDirectSchedule(ConvSchedule[CudaMachine]):
    """One thread, or one block of threads, for each output value."""

    KNOBS = Knobs(
        (
            Knob("threads", "threads of a block", lambda w, machine: (32, 64, 128, 256)),
            Knob(
                "share",
                "threads that share a sum; above 1, one block computes each value",
                lambda w, machine: [n for n in _SHARED if n <= w.taps],
                neutral=1,
            ),
        )
    )

    def default_config(self, workload: Conv2dWorkload, machine: CudaMachine) -> Config:
        """The threads of a sum with the fewest predicted cycles; blocks of 128 if none share.

        Small grids have more blocks than with 256. Smaller blocks are for results that 128 does
        not divide.
        """
        offers = [Config.of(threads=128, share=n) for n in _SHARED if n <= max(1, workload.taps)]
        offers += [Config.of(threads=n, share=1) for n in _SMALLER]
        return min(offers, key=lambda config: self.predicted_cycles(workload, machine, config))

    def check(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
        """Whole warps, as many as a block may have."""
        check_threads(workload, machine, config.int("threads"))
        share = config.int("share")
        if share != 1:
            check_threads(workload, machine, share, "share")

    def apply(
        self, schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> None:
        """Schedule the blocks of :class:`tvmconv.algorithms.cuda.direct.Direct` in place."""
        output, sums = schedule.get_sblock("output"), schedule.get_sblock("conv2d")
        if config.int("share") > 1:
            share_sums(schedule, inspect(schedule, sums), output, config.int("share"))
            return
        thread = bind_threads(schedule, schedule.get_loops(output), config.int("threads"))
        schedule.compute_at(sums, thread)
        schedule.set_scope(sums, 0, "local")

    def explain_cost(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> dict[str, float]:
        """See :func:`~tvmconv.costs.cuda.threads.sum_cycles`; ``memory`` is the remaining wait."""
        window = workload.taps * workload.groups > workload.in_channels
        products = sum_cycles(
            prod(workload.result_shape),
            workload.taps,
            machine,
            threads=config.int("threads"),
            share=config.int("share"),
            window=window,
            sectors=_sectors(workload),
        )
        memory = waiting_cycles(memory_cycles(workload, machine), products)
        return {"call": machine.launch_cycles, "arithmetic": products, "memory": memory}


def _sectors(workload: Conv2dWorkload) -> int:
    """Sectors of L2 that hold the input of one output value: window rows of each channel."""
    w = workload
    rows = w.taps // w.kernel_w
    of_channels = -(-4 * rows * w.in_height * w.in_width // int(constants.SECTOR))
    return min(rows, of_channels)


SCHEDULE = CudaDirectSchedule()
