"""Depthwise convolution on blocked layouts: one filter a channel, no reduction over channels.

Every lane of a channel block is independent, so the tensor expression is a sum over the taps of
one input vector times one weight vector (Zhang et al. 2018, "High Performance Zero-Memory Overhead
Direct Convolutions", section 4, with the channel reduction removed).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray
from tvmconv.config import Config
from tvmconv.machine import Machine
from tvmconv.workload import Conv2dWorkload

UNIT_ROUNDOFF = 2.0**-24


class Depthwise(Algorithm):
    """Direct depthwise convolution, NCHWc in and out, weight packed ``(C/c, R, S, c)``."""

    name = "depthwise"
    blocks = ("depthwiseconv2d", "output")

    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Everything but one input and one output channel per group in float32."""
        if not workload.is_depthwise:
            return "it is not depthwise (groups = input channels = output channels)"
        if workload.dtype != "float32":
            return f"dtype {workload.dtype} is not float32"
        if workload.data_layout != "NCHWc":
            return "its input is not channel-blocked"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Any]:
        """Data, weight, [bias], [residual], output."""
        from tvm import te

        from tvmconv.algorithms.epilogue import apply_epilogue
        from tvmconv.algorithms.padding import inside_image

        w, c = workload, machine.lanes
        blocks = machine.blocks(w.in_channels)
        shape = (w.batch, blocks, w.out_height, w.out_width, c)
        data = te.placeholder((w.batch, blocks, w.in_height, w.in_width, c), name="data")
        weight = te.placeholder((blocks, w.kernel_h, w.kernel_w, c), name="weight")
        bias = te.placeholder((blocks, c), name="bias") if w.has("bias") else None
        residual = te.placeholder(shape, name="residual") if w.has("add") else None
        r = te.reduce_axis((0, w.kernel_h), name="r")
        s = te.reduce_axis((0, w.kernel_w), name="s")

        def tap(n: Any, b: Any, h: Any, x: Any, lane: Any) -> Any:
            row = h * w.stride_h + r * w.dilation_h - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            product = data[n, b, row, column, lane] * weight[b, r, s, lane]
            return te.sum(inside_image(product, row, column, w), axis=[r, s])

        total = te.compute(
            shape, tap, name="depthwiseconv2d", attrs={"tvmconv.algorithm": self.name}
        )

        def finish(n: Any, b: Any, h: Any, x: Any, lane: Any) -> Any:
            return apply_epilogue(
                total[n, b, h, x, lane],
                w.epilogue,
                bias[b, lane] if bias is not None else None,
                residual[n, b, h, x, lane] if residual is not None else None,
            )

        output = te.compute(shape, finish, name="output")
        optional = [tensor for tensor in (bias, residual) if tensor is not None]
        return [data, weight, *optional, output]

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(C/c, R, S, c)``."""
        blocks = machine.blocks(workload.in_channels)
        return (blocks, workload.kernel_h, workload.kernel_w, machine.lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """OIHW with I = 1 to ``(C/c, R, S, c)``, surplus channels zero."""
        blocks, height, width, lanes = self.packed_weight_shape(workload, machine, config)
        padded = np.zeros((blocks * lanes, height, width), np.float32)
        padded[: workload.out_channels] = weight[:, 0]
        packed = padded.reshape(blocks, lanes, height, width).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(packed)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """None: the accumulators live in registers."""
        return 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of all lanes, surplus ones included."""
        padded = machine.blocks(workload.in_channels) * machine.lanes
        return workload.macs // workload.in_channels * padded

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Random-walk growth of rounding errors over one output's taps."""
        taps = workload.kernel_h * workload.kernel_w
        return UNIT_ROUNDOFF * float(np.sqrt(taps))
