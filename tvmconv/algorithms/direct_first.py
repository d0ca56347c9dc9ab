"""Direct convolution of a network's first layer: plain NCHW in, blocked NCHWc out.

An image has too few channels to fill a vector, so the vector runs over output channels and the
input is read as broadcast scalars straight from the plain layout; no blocked or padded copy of
the image is made (Zhang et al. 2018, section 4, with the input's channel block of one).
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, depth_axes, kernel_row
from tvmconv.algorithms.direct import Direct
from tvmconv.algorithms.operands import Operands, output_shape, split_outputs
from tvmconv.algorithms.padding import input_plane, inside_image
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


class DirectFirst(Algorithm):
    """Direct convolution from ``(N, C, H, W)``.

    Knob ``oc``: output blocks of one register tile, contiguous in the packed weight.
    """

    name = "direct_first"
    blocks = ("conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Everything but ungrouped convolutions of a plain input."""
        if workload.data_layout != "NCHW":
            return "it reads plain NCHW input, not channel blocks"
        if workload.groups > 1:
            return "it has no groups"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """Data, weight, [bias], [residual], output."""
        from tvmconv.tvm_api import te

        w, oc = workload, config.int("oc")
        given = Operands.of(w, machine, self.packed_weight_shape(w, machine, config))
        ci = te.reduce_axis((0, w.in_channels), name="ci")
        r = te.reduce_axis((0, w.kernel_h), name="r")
        s = te.reduce_axis((0, w.kernel_w), name="s")
        depth = depth_axes(w)

        def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            row = h * w.stride_h + r * w.dilation_h - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            pixel = inside_image(given.data[plane, ci, row, column], row, column, w, tests)
            weight = given.weight[b // oc, kernel_row(w, depth, r), s, ci, b % oc, lane]
            return te.sum(given.product(pixel, weight), axis=[*depth, r, s, ci])

        total = self.reduction(output_shape(w, machine), tap)
        return given.arguments(given.output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(oc*k), T*R, S, C, oc, k)``, ``k`` the machine's lanes."""
        oc = config.int("oc")
        groups = -(-machine.blocks(workload.out_channels) // oc)
        taps = (*workload.weight_shape[2:], workload.in_channels)
        return (groups, *taps, oc, machine.channel_block)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """OIHW to :meth:`packed_weight_shape`, surplus output channels zero."""
        groups, *_, oc, lanes = self.packed_weight_shape(workload, machine, config)
        split = split_outputs(weight, groups, oc, lanes)
        return np.ascontiguousarray(split.transpose(0, 4, 5, 3, 1, 2))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """None: the accumulators live in registers."""
        return 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of all lanes, surplus output channels included."""
        padded = machine.blocks(workload.out_channels) * machine.channel_block
        return workload.macs // workload.out_channels * padded

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """As of :class:`~tvmconv.algorithms.direct.Direct`: the same sums."""
        return Direct().error_estimate(workload, machine, config)
