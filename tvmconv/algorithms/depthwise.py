"""Depthwise convolution on blocked layouts: one filter a channel, no reduction over channels.

Every lane of a channel block is independent, so the tensor expression is a sum over the taps of
one input vector times one weight vector (Zhang et al. 2018, "High Performance Zero-Memory Overhead
Direct Convolutions", section 4, with the channel reduction removed).
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, depth_axes, kernel_row
from tvmconv.algorithms.operands import Operands, output_shape, split_outputs
from tvmconv.algorithms.padding import input_plane, inside_image
from tvmconv.algorithms.words import lane_product
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

UNIT_ROUNDOFF = 2.0**-24


class Depthwise(Algorithm):
    """Direct depthwise convolution, NCHWc in and out, weight packed ``(C/c, T*R, S, c)``."""

    name = "depthwise"
    integers = True
    blocks = ("depthwiseconv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Everything but one input and one output channel per group."""
        if not workload.is_depthwise:
            return "it is not depthwise (groups = input channels = output channels)"
        if workload.data_layout != "NCHWc":
            return "its input is not channel-blocked"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """Data, weight, [bias], [residual], output."""
        from tvmconv.tvm_api import te

        w = workload
        given = Operands.of(w, machine, self.packed_weight_shape(w, machine, config))
        r = te.reduce_axis((0, w.kernel_h), name="r")
        s = te.reduce_axis((0, w.kernel_w), name="s")
        depth = depth_axes(w)

        def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            row = h * w.stride_h + r * w.dilation_h - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            weight = given.weight[b, kernel_row(w, depth, r), s, lane]
            value = given.data[plane, b, row, column, lane]
            if w.types.is_integer:
                zero = None if given.zero is None else given.zero[0]
                value = inside_image(value, row, column, w, tests, zero)
                return te.sum(lane_product(value, weight, machine), axis=[*depth, r, s])
            product = given.product(value, weight)
            return te.sum(inside_image(product, row, column, w, tests), axis=[*depth, r, s])

        total = self.reduction(output_shape(w, machine), tap, "depthwiseconv2d")
        return given.arguments(given.output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(C/c, T*R, S, c)``."""
        blocks = machine.blocks(workload.in_channels)
        return (blocks, *workload.weight_shape[2:], machine.channel_block)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """OIHW with I = 1 to ``(C/c, T*R, S, c)``, surplus channels zero."""
        split = split_outputs(
            weight[:, 0], machine.blocks(workload.out_channels), machine.channel_block
        )
        return np.ascontiguousarray(split.transpose(0, 2, 3, 1))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """None: the accumulators live in registers."""
        return 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of all lanes, surplus ones included."""
        padded = machine.blocks(workload.in_channels) * machine.channel_block
        return workload.macs // workload.in_channels * padded

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: Machine) -> bool:
        """None: every lane is a channel of its own."""
        return False

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Random-walk growth of rounding errors over one output's taps; none of integers."""
        if workload.types.is_integer:
            return 0.0
        return UNIT_ROUNDOFF * float(np.sqrt(workload.taps))
