"""im2win convolution from plain NCHW input, in the forms of the source's ablation.

Lu (2023), section 2.2.1 and Algorithms 2 to 6: the whole window tensor
``X[n, c, m, k * Hf + u] = I[n, c, m * s + u, k]`` is written first; filters are re-ordered so that
a filter is read in the order of a window. The output is channel-blocked, as everywhere in tvmconv.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray
from tvmconv.algorithms.direct import Direct
from tvmconv.algorithms.im2win import columns
from tvmconv.config import Config
from tvmconv.machine import Machine
from tvmconv.workload import Conv2dWorkload


class Im2winNchw(Algorithm):
    """Dense convolution; meant for comparing the steps of the source, and for first layers."""

    name = "im2win_nchw"
    blocks = ("windows", "conv2d", "output")
    stages = (("window transform", ("windows",)), ("product", ("conv2d", "output")))

    def unsupported(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Only what the source treats, with padding and dilation added."""
        if workload.dtype != "float32":
            return f"it computes in float32, not {workload.dtype}"
        if workload.data_layout != "NCHW":
            return "it reads plain NCHW input, not channel blocks; see im2win"
        if workload.groups != 1:
            return f"the source has no groups; this layer has {workload.groups}"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Any]:
        """See the base class; block ``windows`` is the transform."""
        from tvm import te, tirx

        from tvmconv.algorithms.epilogue import apply_epilogue

        w, lanes = workload, machine.lanes
        blocks = machine.blocks(w.out_channels)
        shape_out = (w.batch, blocks, w.out_height, w.out_width, lanes)
        data = te.placeholder((w.batch, w.in_channels, w.in_height, w.in_width), name="data")
        weight = te.placeholder(self.packed_weight_shape(w, machine, config), name="weight")
        arguments = [data, weight]
        bias = te.placeholder((blocks, lanes), name="bias") if w.has("bias") else None
        residual = te.placeholder(shape_out, name="residual") if w.has("add") else None
        arguments += [tensor for tensor in (bias, residual) if tensor is not None]

        def transform(n: Any, c: Any, m: Any, k: Any, u: Any) -> Any:
            y = m * w.stride_h + u * w.dilation_h - w.pad_top
            x = k - w.pad_left
            if not w.has_padding:
                return data[n, c, y, x]
            inside = tirx.all(y >= 0, y < w.in_height, x >= 0, x < w.in_width)
            return tirx.if_then_else(inside, data[n, c, y, x], 0.0)

        strips = (w.batch, w.in_channels, w.out_height, columns(w), w.kernel_h)
        windows = te.compute(strips, transform, name="windows")
        c = te.reduce_axis((0, w.in_channels), "c")
        v = te.reduce_axis((0, w.kernel_w), "v")
        u = te.reduce_axis((0, w.kernel_h), "u")
        total = te.compute(
            shape_out,
            lambda n, kb, m, x, k: te.sum(
                windows[n, c, m, x * w.stride_w + v * w.dilation_w, u] * weight[kb, c, v, u, k],
                axis=[c, v, u],
            ),
            name="conv2d",
            attrs={"tvmconv.algorithm": self.name},
        )
        output = te.compute(
            shape_out,
            lambda n, kb, m, x, k: apply_epilogue(
                total[n, kb, m, x, k],
                w.epilogue,
                bias[kb, k] if bias is not None else None,
                residual[n, kb, m, x, k] if residual is not None else None,
            ),
            name="output",
        )
        return [*arguments, output]

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/k, C, S, R, k)``: kernel columns before rows, as in a window."""
        w = workload
        blocks = machine.blocks(w.out_channels)
        return (blocks, w.in_channels, w.kernel_w, w.kernel_h, machine.lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight into :meth:`packed_weight_shape`."""
        blocks, channels, s, r, lanes = self.packed_weight_shape(workload, machine, config)
        padded = np.zeros((blocks * lanes, channels, r, s), np.float32)
        padded[: workload.out_channels] = weight
        split = padded.reshape(blocks, lanes, channels, r, s)
        return np.ascontiguousarray(split.transpose(0, 2, 4, 3, 1))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The whole window tensor, and all sums where no register block holds them."""
        w = workload
        total = w.batch * w.in_channels * w.out_height * columns(w) * w.kernel_h
        if config["level"] not in ("register", "cache", "parallel"):
            blocks = machine.blocks(w.out_channels)
            total += w.batch * blocks * w.out_height * w.out_width * machine.lanes
        return 4 * total

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Padded output channels are multiplied too."""
        w = workload
        padded = machine.blocks(w.out_channels) * machine.lanes
        return w.macs // w.out_channels * padded

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """That of direct convolution: the same products in another order."""
        return Direct().error_estimate(workload, machine, config)
