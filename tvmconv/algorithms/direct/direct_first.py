"""Direct convolution of a network's first layer: plain NCHW or NHWC in, blocked NCHWc out.

An image has too few channels to fill a vector. Vectors therefore run over output channels. The
input is read as broadcast scalars from the plain layout, without a blocked or padded copy. This is
section 4 of Zhang et al. 2018 with one input channel in a block. Integer layers broadcast dwords of
neighboring pixels from a padded copy (:mod:`tvmconv.algorithms.integer.row_dwords`). Scalable
vectors read lanes from a padded copy (:mod:`tvmconv.algorithms.direct.padded_image`).
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, depth_axes, kernel_row, reduction_axes
from tvmconv.algorithms.direct.padded_image import (
    image_bytes,
    image_shape,
    left_edge,
    padded_image,
)
from tvmconv.algorithms.integer.dwords import Factors, dword_size
from tvmconv.algorithms.integer.row_dwords import (
    dwords_of_row,
    first_column,
    packed_rows,
    packed_shape,
    padded_rows,
    rows_bytes,
)
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands, output_shape, split_outputs
from tvmconv.algorithms.padding import input_plane, inside_image, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import PLAIN, Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


class DirectFirst(Algorithm):
    """Direct convolution from ``(N, C, H, W)`` or ``(N, H, W, C)``.

    Knob ``oc``: output blocks of one register tile, contiguous in the packed weight. ``vectors``,
    which schedules for scalable vectors have, selects the copy with channel blocks.
    """

    name = "direct_first"
    integers = True
    channels_last = True
    blocks = ("conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers other than ungrouped convolutions of a plain input."""
        if workload.data_layout not in PLAIN:
            return "it reads plain NCHW or NHWC input, not channel blocks"
        if workload.groups > 1:
            return "it has no groups"
        packs = multiply_of(workload, machine).is_packed
        if packs and workload.data_layout != "NCHW":
            return "it reads dwords of rows from NCHW"
        if packs and workload.dilation_w > 1:
            return "the taps of its rows are not neighbors"
        if packs and machine.code.by_lane:
            return f"{machine.family} multiplies by lane, and its dwords of rows have no lanes"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """Data, weight, [bias], [residual], output."""
        from tvmconv.tvm_api import te

        w, oc = workload, config.int("oc")
        given = Operands.of(w, machine, self.packed_weight_shape(w, machine, config))
        if multiply_of(w, machine).is_packed:
            return given.arguments(given.output(self._dword_sums(given, oc)))
        if config.get("vectors", 0):
            return given.arguments(given.output(self._lane_sums(given, oc)))
        ci, r, s = reduction_axes(ci=w.in_channels, r=w.kernel_h, s=w.kernel_w)
        depth = depth_axes(w)

        def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            row = h * w.stride_h + r * w.dilation_h - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            place = (plane, ci, row, column)
            if w.data_layout == "NHWC":
                place = (plane, row, column, ci)
            pixel = inside_image(given.data[place], row, column, w, tests)
            weight = given.weight[b // oc, kernel_row(w, depth, r), s, ci, b % oc, lane]
            return te.sum(given.product(pixel, weight), axis=[*depth, r, s, ci])

        total = self.reduction(output_shape(w, machine), tap)
        return given.arguments(given.output(total))

    def _lane_sums(self, given: Operands, oc: int) -> Tensor:
        """Block ``conv2d`` of scalable vectors, whose factors are channels of a block."""
        from tvmconv.tvm_api import te

        w, machine = given.workload, given.machine
        image, first = padded_image(given), left_edge(w, machine) - w.pad_left
        blocks, channels = int(image.shape[1]), min(w.in_channels, machine.lanes)
        r, s, cb, c = reduction_axes(r=w.kernel_h, s=w.kernel_w, cb=blocks, c=channels)
        depth = depth_axes(w)

        def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            row = h * w.stride_h + r * w.dilation_h
            column = first + x * w.stride_w + s * w.dilation_w
            pixel = zero_unless(tests, image[plane, cb, row, column, c])
            channel = cb * channels + c
            weight = given.weight[b // oc, kernel_row(w, depth, r), s, channel, b % oc, lane]
            return te.sum(given.product(pixel, weight), axis=[*depth, r, s, cb, c])

        return self.reduction(output_shape(w, machine), tap)

    def _dword_sums(self, given: Operands, oc: int) -> Tensor:
        """Block ``conv2d`` of integer layers."""
        from tvmconv.tvm_api import te

        w, machine, factors = given.workload, given.machine, Factors(given)
        rows, size = padded_rows(given), dword_size(given.workload, machine)
        planes = int(rows.shape[0]) // w.batch
        # dwords of a row are outermost: otherwise LLVM would keep the pixels that windows share
        s = te.reduce_axis((0, dwords_of_row(w, machine)), name="s")
        depth = depth_axes(w)
        r, ci = reduction_axes(r=w.kernel_h, ci=w.in_channels)

        def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            row = h * w.stride_h + r * w.dilation_h
            column = first_column(w) + x * w.stride_w + s * size
            plane = n
            if depth:
                first = n // w.out_depth * planes
                plane = first + n % w.out_depth * w.stride_d + depth[0] * w.dilation_d
            pixels = factors.word(rows, (plane, ci, row, column))
            weight = factors.weight(b // oc, s, kernel_row(w, depth, r), ci, b % oc, lane)
            # not from the bias on: with VNNI LLVM spills such accumulators
            return te.sum(factors.product(pixels, weight), axis=[s, *depth, r, ci])

        return self.reduction(output_shape(w, machine), tap)

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(oc*k), T*R, S, C, oc, k)``, ``k`` the machine's lanes.

        Scalable vectors have zeros for channels that fill up the last of several blocks. Integer
        types: :func:`~tvmconv.algorithms.integer.row_dwords.packed_shape`.
        """
        oc = config.int("oc")
        if multiply_of(workload, machine).is_packed:
            return packed_shape(workload, machine, oc)
        groups = -(-machine.blocks(workload.out_channels) // oc)
        channels = workload.in_channels
        if config.get("vectors", 0) and channels > machine.lanes:
            channels = image_shape(workload, machine)[1] * machine.lanes
        return (groups, *workload.weight_shape[2:], channels, oc, machine.channel_block)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """OIHW to :meth:`packed_weight_shape`, surplus output channels zero."""
        if multiply_of(workload, machine).is_packed:
            return packed_rows(weight, workload, machine, config.int("oc"))
        groups, *_, channels, oc, lanes = self.packed_weight_shape(workload, machine, config)
        padded = np.zeros((weight.shape[0], channels, *weight.shape[2:]), weight.dtype)
        padded[:, : weight.shape[1]] = weight
        split = split_outputs(padded, groups, oc, lanes)
        return np.ascontiguousarray(split.transpose(0, 4, 5, 3, 1, 2))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The padded copy of integer layers and of scalable vectors; accumulators are registers."""
        if config.get("vectors", 0):
            return image_bytes(workload, machine)
        return rows_bytes(workload, machine) if multiply_of(workload, machine).is_packed else 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs with surplus output channels."""
        padded = machine.blocks(workload.out_channels) * machine.channel_block
        if multiply_of(workload, machine).is_packed:
            pixels = workload.out_planes * workload.out_height * workload.out_width
            row = dwords_of_row(workload, machine) * dword_size(workload, machine)
            return pixels * padded * workload.weight_shape[2] * workload.in_channels * row
        return workload.macs // workload.out_channels * padded
