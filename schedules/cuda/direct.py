"""One thread for each output value; neighbouring threads take neighbouring pixels."""

from __future__ import annotations

from math import prod

from tvmconv.core.config import Config
from tvmconv.core.knobs import Knob, Knobs
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda_memory import memory_cycles, waiting_cycles
from tvmconv.machines.cuda import CudaMachine
from tvmconv.schedules.cuda.threads import bind_threads, check_threads
from tvmconv.tvm_api.types import Schedule

KNOBS: Knobs[Conv2dWorkload] = Knobs(
    (Knob("threads", "threads of a block", lambda w, machine: (64, 128, 256)),)
)
# Of one product: instructions (two loads, their addresses and bounds, the multiply-add), and the
# cycles until a thread goes on to the next, most of them a load's from L1. Both are assumed.
_INSTRUCTIONS, _LATENCY = 10.0, 25.0


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
    """Threads wait for their loads, or more of them for the issue of instructions; then memory."""
    warps = -(-prod(workload.result_shape) // machine.warp)
    of_one = -(-warps // machine.multiprocessors)
    resident = machine.threads // machine.warp
    rounds = -(-of_one // resident)
    issued = of_one * _INSTRUCTIONS / (machine.lanes / machine.warp)
    products = workload.taps * max(rounds * _LATENCY, issued)
    memory = waiting_cycles(memory_cycles(workload, machine), products)
    return machine.launch_cycles + products + memory
