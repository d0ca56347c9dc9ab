"""The instruction of a machine that computes a workload."""

from __future__ import annotations

from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.multiply import Multiply, multiply_of_types
from tvmconv.machines.record import Machine


def multiply_of(workload: Conv2dWorkload, machine: Machine) -> Multiply:
    """The instruction that multiplies a workload's data by its weights; FP32 uses the FMA."""
    return multiply_of_types(workload.types, machine, _has_matrices(workload, machine))


def _has_matrices(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether all outputs share channels of more than one block, at more than one pixel."""
    pixels = workload.out_height * workload.out_width
    return workload.groups == 1 and workload.in_channels > machine.channel_block and pixels > 1
