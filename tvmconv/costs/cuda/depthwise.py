"""The cost model of depthwise convolution on GPUs."""

from __future__ import annotations

from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.costs.cuda.memory import issued_lanes, memory_cycles, waiting_cycles
from tvmconv.machines.cuda import CudaMachine


def call_parts(workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> dict[str, float]:
    """All instructions on the multiprocessor with the most blocks, and waiting for memory."""
    w, rows, threads = workload, config.int("rows"), config.int("threads")
    strips = w.batch * w.out_channels * -(-w.out_height // rows) * w.out_width
    blocks = -(-strips // threads)
    loads = window_rows(w, rows) * w.kernel_w
    steps = 2 + len(w.epilogue)
    instructions = constants.DEPTHWISE_PLACE + loads
    instructions += constants.DEPTHWISE_ROW * window_rows(w, rows)
    instructions += rows * (w.kernel_h * w.kernel_w + steps) + w.kernel_h * w.kernel_w
    most = -(-blocks // machine.multiprocessors) * threads
    issued = most * max(instructions / issued_lanes(machine), 4 * loads / constants.L1_RATE)
    return {
        "arithmetic": issued,
        "memory": waiting_cycles(memory_cycles(w, machine), issued),
        "call": machine.launch_cycles,
    }


def window_rows(workload: Conv2dWorkload, rows: int) -> int:
    """Rows of the window of a thread with some output rows."""
    w = workload
    return (rows - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1
