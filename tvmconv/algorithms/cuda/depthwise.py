"""Depthwise convolution on GPUs: a thread sums some rows of one column, its inputs in registers.

Such layers have two or three operations for each byte. Every value should come from memory once,
in whole lines, and from L1 as rarely as possible. Vertically adjacent outputs share rows of their
windows, which a thread loads once.
"""

from __future__ import annotations

from tvmconv.algorithms.base import images_only
from tvmconv.algorithms.cuda.base import CudaOperands, SumInRegisters
from tvmconv.algorithms.padding import inside_image
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Tensor


class Depthwise(SumInRegisters):
    """One filter a channel, with weights as ONNX has them."""

    name = "depthwise"
    blocks = ("window", "conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Layers with more than one input or output channel per group."""
        if not workload.is_depthwise:
            return "it is not depthwise (groups = input channels = output channels)"
        return images_only(workload)

    def compute(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> list[Tensor]:
        """Blocks ``window``, ``conv2d`` and ``output``.

        A window is indexed by row of the padded image, column of the output and column of the
        filter. Columns between the taps of a dilated filter are not loaded.
        """
        from tvmconv.tvm_api import te

        w, given = workload, CudaOperands.of(workload, workload.weight_shape)
        rows = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1

        def read(n: Expr, c: Expr, row: Expr, x: Expr, s: Expr) -> Expr:
            y = row - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            value = given.data[n, c, y, column]
            return inside_image(value, y, column, w) if w.has_padding else value

        shape = (w.batch, w.in_channels, rows, w.out_width, w.kernel_w)
        window = te.compute(shape, read, name="window")
        r, s = te.reduce_axis((0, w.kernel_h), "r"), te.reduce_axis((0, w.kernel_w), "s")

        def multiply(n: Expr, c: Expr, h: Expr, x: Expr) -> Expr:
            value = window[n, c, h * w.stride_h + r * w.dilation_h, x, s]
            return te.sum(value * given.weight[c, 0, r, s], axis=[r, s])

        return given.arguments(given.output(self.reduction(w.result_shape, multiply)))
