"""The minimum traffic of a convolution on a GPU."""

from __future__ import annotations

from math import prod

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.machines.cuda import CudaMachine


def memory_cycles(workload: Conv2dWorkload, machine: CudaMachine, workspace: int = 0) -> float:
    """Cycles in which every array crosses the memory's bus once, and ``workspace`` bytes twice."""
    w = workload
    results = prod(w.result_shape) * (2 if w.has("add") else 1)
    values = prod(w.data_shape) + prod(w.weight_shape) + results
    return (4 * values + 2 * workspace) / machine.memory_rate


def issued_lanes(machine: CudaMachine) -> float:
    """Lanes of a multiprocessor for which kernels issue an instruction in a cycle."""
    return constants.ISSUED * machine.lanes


def peak_rate(machine: CudaMachine, precision: str = "") -> float:
    """FMAs of the GPU in a cycle: FP32, or a precision on tensor cores."""
    rate = machine.tensor_rate(precision) if precision else machine.lanes
    return rate * machine.multiprocessors


def least_cycles(workload: Conv2dWorkload, machine: CudaMachine, precision: str = "") -> float:
    """The longer of direct convolution's FMAs at the peak and of moving its arrays.

    Winograd may be faster.
    """
    arithmetic = workload.flops / 2.0 / peak_rate(machine, precision)
    return max(arithmetic, memory_cycles(workload, machine))


def waiting_cycles(memory: float, busy: float) -> float:
    """Cycles of memory that other work of the same call does not hide.

    A tenth of the shorter is not hidden, because blocks begin with loads and end with stores. The
    share is assumed, to be fitted on a GPU.
    """
    return memory - constants.HIDDEN * min(memory, busy)
