"""Direct convolution on GPUs: each thread sums one output value, in registers.

It is the fallback for layers without a tiled algorithm. It reads every input value once for each
output channel, mostly from caches. It supports images and volumes, and all groups, strides,
dilations and padding.
"""

from __future__ import annotations

from tvmconv.algorithms.base import depth_axes, kernel_row, reduction_axes
from tvmconv.algorithms.cuda.base import CudaOperands, SumInRegisters
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Tensor


class Direct(SumInRegisters):
    """The definition of a convolution, with weights as ONNX has them."""

    name = "direct"
    blocks = ("conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Nothing."""
        return None

    def compute(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> list[Tensor]:
        """Blocks ``conv2d`` and ``output``."""
        from tvmconv.tvm_api import te, tirx

        w, operands = workload, CudaOperands.of(workload, workload.weight_shape)
        channels, rows = w.in_channels // w.groups, w.out_channels // w.groups
        depth = depth_axes(w)
        c, r, s = reduction_axes(c=channels, r=w.kernel_h, s=w.kernel_w)

        def value(n: Expr, k: Expr, h: Expr, x: Expr) -> Expr:
            row = h * w.stride_h - w.pad_top + r * w.dilation_h
            column = x * w.stride_w - w.pad_left + s * w.dilation_w
            inside = []
            if w.pad_top or w.pad_bottom:
                inside += [row >= 0, row < w.in_height]
            if w.pad_left or w.pad_right:
                inside += [column >= 0, column < w.in_width]
            plane = n
            if depth:
                place = n % w.out_depth * w.stride_d - w.pad_front + depth[0] * w.dilation_d
                plane = n // w.out_depth * w.in_depth + place
                inside += [place >= 0, place < w.in_depth]
            read = operands.data[plane, k // rows * channels + c, row, column]
            if inside:
                read = tirx.if_then_else(tirx.all(*inside), read, tirx.const(0, "float32"))
            return te.sum(
                read * operands.weight[k, c, kernel_row(w, depth, r), s], [*depth, c, r, s]
            )

        return operands.arguments(operands.output(self.reduction(w.result_shape, value)))
