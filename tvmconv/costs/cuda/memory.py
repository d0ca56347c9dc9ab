"""What a convolution on a GPU moves at least."""

from __future__ import annotations

from math import prod

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.costs.cuda import constants
from tvmconv.machines.cuda import CudaMachine


def memory_cycles(workload: Conv2dWorkload, machine: CudaMachine, workspace: int = 0) -> float:
    """Cycles in which every array crosses the memory's bus once.

    Parameters
    ----------
    workload, machine
        What is computed, and where.
    workspace
        Bytes that one kernel of the call writes and another one reads.
    """
    w = workload
    results = prod(w.result_shape) * (2 if w.has("add") else 1)
    values = prod(w.data_shape) + prod(w.weight_shape) + results
    return (4 * values + 2 * workspace) / machine.memory_rate


def issued_lanes(machine: CudaMachine) -> float:
    """Lanes of a multiprocessor for which kernels issue an instruction in a cycle."""
    return constants.ISSUED * machine.lanes


def peak_rate(machine: CudaMachine, precision: str = "") -> float:
    """Multiply-adds of the GPU in a cycle: of float32, or of a precision on tensor cores."""
    rate = machine.tensor_rate(precision) if precision else machine.lanes
    return rate * machine.multiprocessors


def least_cycles(workload: Conv2dWorkload, machine: CudaMachine, precision: str = "") -> float:
    """The longer of direct convolution's multiply-adds at the peak and of its arrays' moves.

    Winograd may take less.
    """
    arithmetic = workload.flops / 2.0 / peak_rate(machine, precision)
    return max(arithmetic, memory_cycles(workload, machine))


def waiting_cycles(memory: float, busy: float) -> float:
    """Cycles of memory that other work of the same call does not hide.

    Parameters
    ----------
    memory, busy
        Cycles that each would take alone. Of the shorter one a tenth is not hidden: blocks begin
        with loads and end with stores. Assumed, to be fitted on a GPU.
    """
    return memory - constants.HIDDEN * min(memory, busy)
