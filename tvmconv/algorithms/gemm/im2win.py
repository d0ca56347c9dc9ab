"""im2win convolution on channel-blocked layouts.

Lu, "Performance optimization of convolutional neural networks based on tensor algebra" (2023),
section 2.2. Every output row has the strip of input rows that its windows read. A strip is stored
column by column, as
``X[n, c, m, k * Hf + u] = I[n, c, m * s + u, k]`` (equation 2-2 with its stride). A window
is then contiguous, and each value is copied at most ``Hf / s`` times. Here ``c`` is a block of
channels, strips include the padding, and only the strips of one region of rows exist at a time.
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only, reduction_axes
from tvmconv.algorithms.direct.channels import first_block, input_span
from tvmconv.algorithms.direct.direct import WholeBlocks
from tvmconv.algorithms.operands import Operands, output_shape
from tvmconv.algorithms.padding import inside_image
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


class Im2win(Algorithm):
    """Dense and grouped convolution through contiguous windows.

    The expression reads the parameter ``oc``, the output blocks of a register tile and of a group
    of packed weights. ``oh`` and ``rows`` define the region (:func:`region_rows`).
    """

    name = "im2win"
    blocks = ("windows", "conv2d", "output")
    stages = (("window transform", ("windows",)), ("product", ("conv2d", "output")))

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Reads blocked input, as :class:`~tvmconv.algorithms.direct.direct.Direct` does."""
        return WholeBlocks().unsuited(workload, machine) or images_only(workload)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; block ``windows`` is the transform."""
        from tvmconv.tvm_api import te

        w, lanes, oc = workload, machine.channel_block, config.int("oc")
        in_blocks = machine.blocks(w.in_channels)
        packed = self.packed_weight_shape(workload, machine, config)
        given = Operands.of(w, machine, packed)

        def transform(n: Expr, cb: Expr, m: Expr, k: Expr, u: Expr, c: Expr) -> Expr:
            y = m * w.stride_h + u * w.dilation_h - w.pad_top
            x = k - w.pad_left
            return inside_image(given.data[n, cb, y, x, c], y, x, w)

        strips = (w.batch, in_blocks, w.out_height, columns(w), w.kernel_h, lanes)
        windows = te.compute(strips, transform, name="windows")
        span = input_span(workload, machine)
        cb, v, u, c = reduction_axes(cb=span, v=w.kernel_w, u=w.kernel_h, c=packed[4])

        def multiply(n: Expr, kb: Expr, m: Expr, x: Expr, k: Expr) -> Expr:
            block = first_block(workload, machine, kb) + cb
            value = windows[n, block, m, x * w.stride_w + v * w.dilation_w, u, c]
            tap = given.weight[kb // oc, cb, v, u, c, kb % oc, k]
            return te.sum(given.product(value, tap), axis=[cb, v, u, c])

        total = self.reduction(output_shape(w, machine), multiply)
        return given.arguments(given.output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(oc*k), C/c, S, R, c, oc, k)``: kernel columns before rows, as in a window."""
        packed = WholeBlocks().packed_weight_shape(workload, machine, config)
        groups, span, r, s, inner, oc, lanes = packed
        return (groups, span, s, r, inner, oc, lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight into :meth:`packed_weight_shape`."""
        packed = WholeBlocks().pack_weight(weight, workload, machine, config)
        return np.ascontiguousarray(packed.transpose(0, 1, 3, 2, 4, 5, 6))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Strips of the regions that are alive at a time, one on each core."""
        rows = region_rows(workload, config)
        regions = workload.batch * -(-workload.out_height // rows)
        strip = machine.blocks(workload.in_channels) * columns(workload) * workload.kernel_h
        alive = rows * machine.channel_block * min(machine.cores, regions)
        return itemsize(workload.types.data) * strip * alive

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """As many as direct convolution."""
        return WholeBlocks().multiplies(workload, machine, config)


def region_rows(workload: Conv2dWorkload, config: Config) -> int:
    """Output rows of a region: ``rows``, rounded up to whole tiles of ``oh``.

    Otherwise a tile would reach into the next region, and two threads would write the same rows.
    """
    tile = config.int("oh")
    return min(workload.out_height, -(-config.int("rows") // tile) * tile)


def columns(workload: Conv2dWorkload) -> int:
    """Columns of a strip: columns that some window reads, including padding."""
    w = workload
    return (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w + 1
