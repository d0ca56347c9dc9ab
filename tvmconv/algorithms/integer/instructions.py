"""Which of a processor's dot products multiplies the integers of a workload."""

from __future__ import annotations

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.dot import DotProduct, dot_of_bytes, dot_of_shorts, matrix_of_bytes
from tvmconv.machines.record import Machine


def dot_of(workload: Conv2dWorkload, machine: Machine) -> DotProduct:
    """The instruction that multiplies an integer workload's data by its weights."""
    if workload.types.weight != "int8":
        return dot_of_shorts(machine)
    return matrix_of_bytes(machine) if _has_matrices(workload, machine) else dot_of_bytes(machine)


def _has_matrices(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether all outputs share channels of more than one block, at more than one pixel."""
    pixels = workload.out_height * workload.out_width
    return workload.groups == 1 and workload.in_channels > machine.channel_block and pixels > 1
