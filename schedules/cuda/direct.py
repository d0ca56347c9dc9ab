"""Direct convolution on GPUs: a thread for each output value, or a block for each.

Neighboring threads compute neighboring positions. With few values, most of the GPU would idle, and
neighboring threads would read scattered addresses. With ``share`` a block of threads computes each
value.
"""

from __future__ import annotations

from math import prod

from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda.memory import memory_cycles, waiting_cycles
from tvmconv.costs.cuda.threads import sum_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.common.nest import inspect
from tvmconv.schedules.cuda.threads import bind_threads, check_threads, share_sums
from tvmconv.tvm_api.types import Schedule

# threads that share an accumulator; 1 for no sharing
_SHARED = (1, 32, 64, 128, 256)
KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (
        Knob("threads", "threads of a block", lambda w, machine: (64, 128, 256)),
        Knob(
            "share",
            "threads that share a sum; of more than 1, a block for each value",
            lambda w, machine: [n for n in _SHARED if n <= w.taps],
            neutral=1,
        ),
    )
)


def default_config(workload: Conv2dWorkload, machine: CudaMachine) -> Config:
    """The threads of a value with the fewest predicted cycles; blocks of 128 without sharing.

    Other block sizes are as fast, and small grids spread further than with 256.
    """
    offers = [Config.of(threads=128, share=n) for n in _SHARED if n <= max(1, workload.taps)]
    return min(offers, key=lambda config: predicted_cycles(workload, machine, config))


def check(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Whole warps, up to the maximum of a block."""
    check_threads(workload, machine, config.int("threads"))
    share = config.int("share")
    if share != 1:
        check_threads(workload, machine, share, "share")


def apply(
    schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.cuda.direct.Direct` in place."""
    output, sums = schedule.get_sblock("output"), schedule.get_sblock("conv2d")
    if config.int("share") > 1:
        share_sums(schedule, inspect(schedule, sums), output, config.int("share"))
        return
    thread = bind_threads(schedule, schedule.get_loops(output), config.int("threads"))
    schedule.compute_at(sums, thread)
    schedule.set_scope(sums, 0, "local")


def predicted_cycles(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> float:
    """See :func:`~tvmconv.costs.cuda.threads.sum_cycles`; then waits for memory."""
    window = workload.taps * workload.groups > workload.in_channels
    products = sum_cycles(
        prod(workload.result_shape),
        workload.taps,
        machine,
        share=config.int("share"),
        window=window,
    )
    memory = waiting_cycles(memory_cycles(workload, machine), products)
    return machine.launch_cycles + products + memory
