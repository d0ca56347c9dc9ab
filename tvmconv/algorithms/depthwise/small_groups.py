"""Groups of a few channels, computed as depthwise layers by vectors with permuted lanes.

A vector of outputs holds whole groups. Each step of the reduction multiplies it by one input
channel of each of its groups. These inputs are the lanes of one vector of inputs in another order,
so that one permutation replaces products by the zeros between groups. Kernel columns share it.

A group has ``I`` inputs and ``O`` outputs, and a block has ``c`` channels. The window of an output
block is the ``c // O * I`` inputs of its groups. Lane ``k`` reads lane ``k // O * I + i`` of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmconv.algorithms.base import FloatArray, depth_axes, kernel_row, reduction_axes
from tvmconv.algorithms.operands import Operands, split_outputs
from tvmconv.algorithms.padding import input_plane, inside_image
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr


def has_small_groups(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether each output block holds whole groups, and reads a whole part of one input block."""
    w, lanes = workload, machine.channel_block
    if w.types != FLOAT32 or machine.code.by_lane or machine.vector.scalable:
        return False
    inputs, outputs = group_sizes(w)
    if w.is_depthwise or outputs >= lanes or lanes % outputs:
        return False
    return lanes % window(w, machine) == 0 and inputs <= outputs


def group_sizes(workload: Conv2dWorkload) -> tuple[int, int]:
    """Input and output channels of a group."""
    return workload.in_channels // workload.groups, workload.out_channels // workload.groups


def window(workload: Conv2dWorkload, machine: Machine) -> int:
    """Input channels of the groups of one output block."""
    inputs, outputs = group_sizes(workload)
    return machine.channel_block // outputs * inputs


def packed_group_shape(workload: Conv2dWorkload, machine: Machine) -> tuple[int, ...]:
    """``(K/c, T*R, I, S, c)``."""
    w = workload
    inputs, _ = group_sizes(w)
    rows = w.kernel_d * w.kernel_h
    lanes = machine.channel_block
    return (machine.blocks(w.out_channels), rows, inputs, w.kernel_w, lanes)


def pack_groups(weight: FloatArray, machine: Machine) -> FloatArray:
    """OIHW to :func:`packed_group_shape`, surplus output channels zero."""
    blocks = machine.blocks(weight.shape[0])
    split = split_outputs(weight, blocks, machine.channel_block)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 4, 1))


def grouped_sum(given: Operands, workload: Conv2dWorkload, machine: Machine) -> Callable[..., Expr]:
    """The sum over the channels of a group and the taps, for one output."""
    w, lanes, width = workload, machine.channel_block, window(workload, machine)
    inputs, outputs = group_sizes(w)
    depth = depth_axes(w)
    r, i, s = reduction_axes(r=w.kernel_h, i=inputs, s=w.kernel_w)

    def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
        row = h * w.stride_h + r * w.dilation_h - w.pad_top
        column = x * w.stride_w + s * w.dilation_w - w.pad_left
        plane, tests = input_plane(w, n, depth[0] if depth else 0)
        weight = given.weight[b, kernel_row(w, depth, r), i, s, lane]
        block, first = b * width // lanes, b * width % lanes
        pixel = given.data[plane, block, row, column, first + lane // outputs * inputs + i]
        product = inside_image(given.product(pixel, weight), row, column, w, tests)
        return given.summed(product, [*depth, r, i, s], (n, b, h, x, lane))

    return tap
