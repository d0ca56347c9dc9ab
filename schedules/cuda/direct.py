"""One thread for each output value; neighbouring threads take neighbouring pixels."""

from __future__ import annotations

from math import prod

from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda_memory import memory_cycles, waiting_cycles
from tvmconv.costs.cuda_threads import own_sum_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.cuda.threads import bind_threads, check_threads
from tvmconv.tvm_api.types import Schedule

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (Knob("threads", "threads of a block", lambda w, machine: (64, 128, 256)),)
)


def default_config(workload: Conv2dWorkload, machine: CudaMachine) -> Config:
    """Blocks of 128 threads: as good as others, and small grids spread further."""
    return Config.of(threads=128)


def check(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> None:
    """Whole warps, as many as a block may have."""
    check_threads(workload, machine, config.int("threads"))


def apply(
    schedule: Schedule, workload: Conv2dWorkload, machine: CudaMachine, config: Config
) -> None:
    """Schedule the blocks of :class:`tvmconv.algorithms.cuda.direct.Direct` in place."""
    output, sums = schedule.get_sblock("output"), schedule.get_sblock("conv2d")
    thread = bind_threads(schedule, schedule.get_loops(output), config.int("threads"))
    schedule.compute_at(sums, thread)
    schedule.set_scope(sums, 0, "local")


def predicted_cycles(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> float:
    """See :func:`~tvmconv.costs.cuda_threads.own_sum_cycles`; then what waits for memory."""
    products = own_sum_cycles(prod(workload.result_shape), workload.taps, machine)
    memory = waiting_cycles(memory_cycles(workload, machine), products)
    return machine.launch_cycles + products + memory
