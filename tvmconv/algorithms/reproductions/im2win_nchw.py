"""im2win convolution from NCHW to NCHW, in the variants of the paper's ablation.

This is section 2.2.1 and Algorithms 2 to 6 of Lu (2023). The whole window tensor
``X[n, c, m, k * Hf + u] = I[n, c, m * s + u, k]`` is written first. Filters are re-ordered so that
a filter is read in the order of a window. Accumulators are vectors of output channels. Each row of
them is transposed in registers to rows of NCHW, while it is in the nearest cache.
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only, reduction_axes
from tvmconv.algorithms.gemm.im2win import columns
from tvmconv.algorithms.operands import Operands, output_shape, split_outputs
from tvmconv.algorithms.padding import inside_image
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


class Im2winNchw(Algorithm):
    """Dense convolution, to compare the steps of the paper, and for first layers."""

    name = "im2win_nchw"
    blocks = ("windows", "conv2d", "finished", "output")
    stages = (("window transform", ("windows",)), ("product", ("conv2d", "finished", "output")))
    plain_output = True

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers that the paper does not have, except for padding and dilation."""
        if workload.data_layout != "NCHW":
            return "it reads plain NCHW input, not channel blocks; see im2win"
        if workload.groups != 1:
            return f"the paper has no groups; this layer has {workload.groups}"
        return images_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; block ``windows`` is the transform."""
        from tvmconv.tvm_api import te

        w = workload
        packed = self.packed_weight_shape(w, machine, config)
        given = Operands.of(w, machine, packed, plain_output=True)

        def transform(n: Expr, c: Expr, m: Expr, k: Expr, u: Expr) -> Expr:
            y = m * w.stride_h + u * w.dilation_h - w.pad_top
            x = k - w.pad_left
            return inside_image(given.data[n, c, y, x], y, x, w)

        strips = (w.batch, w.in_channels, w.out_height, columns(w), w.kernel_h)
        windows = te.compute(strips, transform, name="windows")
        c, v, u = reduction_axes(c=w.in_channels, v=w.kernel_w, u=w.kernel_h)

        def multiply(n: Expr, kb: Expr, m: Expr, x: Expr, k: Expr) -> Expr:
            value = windows[n, c, m, x * w.stride_w + v * w.dilation_w, u]
            return te.sum(given.product(value, given.weight[kb, c, v, u, k]), axis=[c, v, u])

        total = self.reduction(output_shape(w, machine), multiply)
        return given.arguments(given.plain_output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/k, C, S, R, k)``: kernel columns before rows, as in a window."""
        w = workload
        blocks = machine.blocks(w.out_channels)
        return (blocks, w.in_channels, w.kernel_w, w.kernel_h, machine.channel_block)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight into :meth:`packed_weight_shape`."""
        split = split_outputs(weight, machine.blocks(workload.out_channels), machine.channel_block)
        return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 1))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The whole window tensor, and accumulators that are not in registers.

        The base level keeps all of them, the others rows that are written next.
        """
        w, level = workload, config["level"]
        blocks, rows = machine.blocks(w.out_channels), 1
        if level == "base":
            rows = w.batch * blocks * w.out_height
        elif level in ("register", "cache", "parallel"):
            rows = min(config.int("oc"), blocks)
        sums = rows * w.out_width * machine.channel_block
        return self.window_bytes(w) + itemsize(w.types.accumulator) * sums

    @staticmethod
    def window_bytes(workload: Conv2dWorkload) -> int:
        """Bytes of the window tensor: equation 2-4 of the thesis, with padding and dilation."""
        w = workload
        windows = w.batch * w.in_channels * w.out_height * columns(w) * w.kernel_h
        return itemsize(w.types.data) * windows

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs with padded output channels."""
        w = workload
        padded = machine.blocks(w.out_channels) * machine.channel_block
        return w.macs // w.out_channels * padded
