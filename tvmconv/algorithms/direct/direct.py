"""Direct convolution on channel-blocked layouts; FP32 needs workspace only for parts (``kc``).

Zhang, Franchetti, Low, "High Performance Zero-Memory Overhead Direct Convolutions" (ICML 2018).
Activations are ``(N, C/c, H, W, c)``. Weights are re-ordered once to the order in which the kernel
reads them. Padding is a predicate on the input read, never a padded copy.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tvmconv.algorithms.base import (
    Algorithm,
    FloatArray,
    depth_axes,
    kernel_row,
    reduction_axes,
    rounding_of_sum,
)
from tvmconv.algorithms.direct.channels import (
    channel_tests,
    dword_blocks,
    first_block,
    halves_of_block,
    input_span,
    skips_channels,
    tile_channels,
)
from tvmconv.algorithms.direct.group_lanes import (
    channel_cut,
    input_channel,
    own_value,
    selects_groups,
)
from tvmconv.algorithms.integer import padded_rows
from tvmconv.algorithms.integer.dwords import (
    Factors,
    arranged,
    channels_read,
    copied_steps,
    dword_size,
    widened,
    widened_bytes,
)
from tvmconv.algorithms.integer.wide_weights import wide_bytes, wide_weights
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands, output_shape
from tvmconv.algorithms.padding import input_plane, inside_image
from tvmconv.core.config import Config
from tvmconv.core.datatypes import BFLOAT16, FLOAT32
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


def flattened(workload: Conv2dWorkload) -> Conv2dWorkload:
    """The same convolution with all pixels in one row, if the kernel does not distinguish rows.

    This applies to 1x1 kernels of stride 1 without padding. One long row has better tiles than many
    short rows.
    """
    pixelwise = (workload.kernel_h, workload.kernel_w) == (1, 1) and not workload.has_padding
    if not pixelwise or (workload.stride_h, workload.stride_w) != (1, 1):
        return workload
    return replace(workload, in_height=1, in_width=workload.in_height * workload.in_width)


def joined(workload: Conv2dWorkload, config: Config) -> bool:
    """Whether a kernel treats all rows of an image as one row, and tests the columns of each pixel.

    Scalable vectors are often longer than a row. Without a stride, input and output rows must have
    the same length, so that pixels have the same distances in both. With a stride, pixels are
    gathered from any row.
    """
    return bool(config.get("vectors", 0)) and (
        strided(workload) or workload.out_width == workload.in_width
    )


def strided(workload: Conv2dWorkload) -> bool:
    """Whether neighboring pixels of the output read pixels or rows that are not neighbors."""
    return (workload.stride_h, workload.stride_w) != (1, 1)


class Direct(Algorithm):
    """Dense and grouped convolution from ``NCHWc`` input.

    The expression reads the parameter ``oc``, the output blocks of one register tile. Weights are
    packed in groups of so many blocks, so that a tile reads one stream.

    With groups, every output block reads the input blocks that its groups need, a constant number.
    Packed weights are zero for input channels of other groups. Where :attr:`skips` is True, the
    blocks of a tile share their input blocks, and skip the channels that none of them needs. Lanes
    of several groups select their channels: :mod:`tvmconv.algorithms.direct.group_lanes`.
    """

    name = "direct"
    types = (FLOAT32, *BFLOAT16)
    integers = True
    blocks = ("conv2d", "output")
    # whether schedules end the reduction over a block where its channels do, or lanes select them
    skips = True

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers with plain ``NCHW`` input, and depthwise layers."""
        if workload.data_layout != "NCHWc":
            return "it reads channel-blocked input, not plain NCHW"
        if workload.is_depthwise:
            return "a depthwise layer would multiply by zeros; use the depthwise algorithm"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class; blocks ``conv2d`` (reduction) and ``output``."""
        from tvmconv.tvm_api import te

        w, oc = flattened(workload), config.int("oc")
        flat = w != workload
        # joined rows, whose taps test the rows of each pixel
        rows_joined = not flat and joined(workload, config)
        shape = output_shape(workload, machine)
        if flat or rows_joined:
            shape = (*shape[:2], 1, shape[2] * shape[3], shape[4])
        packed = self.packed_weight_shape(workload, machine, config)
        given = Operands.of(workload, machine, packed)
        if workload.types.is_integer and config.get("vectors", 0):
            return padded_rows.compute(given, self.name, oc)
        is_wide = bool(config.get("wide", 0))
        factors = Factors(replace(given, weight=wide_weights(given)) if is_wide else given)
        shared = self._sharing(workload, machine, config)
        span = input_span(workload, machine, shared)
        selects = self._selects(workload, machine)
        packs = multiply_of(w, machine).is_packed
        blocks = packed[3] if packs else packed[1] if selects else span
        parts = halves_of_block(workload, machine) if self.skips else 1
        cb = te.reduce_axis((0, blocks), "cb")
        depth = depth_axes(w)
        r, s, c = reduction_axes(r=w.kernel_h, s=w.kernel_w, c=packed[4])
        wide = widened(given)

        def multiply(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            if rows_joined:
                h, x = x // workload.out_width, x % workload.out_width
            block = first_block(workload, machine, kb, shared) + cb // parts
            step = cb % parts * packed[4] + c if parts > 1 else c
            y = h * w.stride_h + r * w.dilation_h - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            # the plane itself keeps its rows
            width = workload.in_width
            pixel = (column // width, column % width) if flat else (y, column)
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            if self._skips(workload, machine):
                tests = [*channel_tests(workload, machine, kb // oc, oc, block, c), *tests]
            if wide is None:

                def of_group(group: Expr) -> Expr:
                    own, channel = input_channel(workload, machine, group, cb, c)
                    return factors.value(given.data, (plane, own, *pixel, channel))

                if selects:
                    read = own_value(workload, machine, oc, kb, k, of_group)
                else:
                    read = factors.value(given.data, (plane, block, *pixel, step))
                value = inside_image(read, y, column, w, tests, factors.zero)
            else:
                down, right = copied_steps(w)
                place = (y + w.pad_top) // down, (column + w.pad_left) // right
                place = pixel if flat else place
                planes = int(wide.shape[0]) // w.batch
                if w.is_volume:
                    first = n // w.out_depth * planes
                    plane = first + n % w.out_depth * w.stride_d + depth[0] * w.dilation_d
                value = factors.value(wide, (plane, block, *place, step))
            row = kernel_row(w, depth, r)
            order = (row, s, cb) if packs else (cb, row, s)
            tap = factors.weight(kb // oc, *order, c, kb % oc, k)
            axes = [cb, *depth, r, s, c]
            return given.summed(factors.product(value, tap), axes, (n, kb, h, x, k))

        total = self.reduction(shape, multiply)
        joins = flat or rows_joined
        return given.arguments((given.row_output if joins else given.output)(total, begun=True))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(oc*k), C/c, T*R, S, c, oc, k)``, ``k`` and ``c`` the machine's lanes.

        Packed types have ``(K/(oc*k), T*R, S, C/c, c/i, oc, k, i)`` with ``i`` channels in a dword,
        or another order of dwords: :func:`~tvmconv.algorithms.integer.dwords.arranged`. Where a
        reduction reads halves of blocks, ``C/c`` and ``c/i`` are the halves that have channels, and
        the dwords of a half: :func:`~tvmconv.algorithms.direct.channels.halves_of_block`.

        Where lanes select their group, the first ``C/c`` and the second ``c`` are the parts of a
        group's channels and the channels of a part.

        The last group is padded with zero blocks. An input with less than one block of channels
        has only these channels.
        """
        oc = config.int("oc")
        groups = -(-machine.blocks(workload.out_channels) // oc)
        size = dword_size(workload, machine)
        steps = channels_read(workload, machine) // size
        taps = workload.weight_shape[2:]
        span = input_span(workload, machine, self._sharing(workload, machine, config))
        lanes = machine.channel_block
        if self._selects(workload, machine):
            parts, steps = channel_cut(workload, machine)
            return (groups, parts, *taps, steps, oc, lanes)
        if multiply_of(workload, machine).is_packed:
            blocks = dword_blocks(workload, machine, halves=self.skips)
            return (groups, *taps, *blocks, oc, lanes, size)
        return (groups, span, *taps, steps, oc, lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight into :meth:`packed_weight_shape`."""
        lanes, shape = machine.channel_block, self.packed_weight_shape(workload, machine, config)
        groups, (steps, oc) = shape[0], shape[4:6]
        taps, shared = weight.shape[2:], self._sharing(workload, machine, config)
        packs = multiply_of(workload, machine).is_packed
        span = shape[3] if packs else input_span(workload, machine, shared)
        size = dword_size(workload, machine)
        inner = steps * size
        per_group_in = workload.in_channels // workload.groups
        per_group_out = workload.out_channels // workload.groups
        if self._selects(workload, machine):
            rows = np.zeros((groups * oc * lanes, per_group_in, *taps), weight.dtype)
            rows[: workload.out_channels] = weight
            rows = rows.reshape(groups, oc, lanes, shape[1], steps, *taps)
            return np.ascontiguousarray(rows.transpose(0, 3, 5, 6, 4, 1, 2)).reshape(shape)
        rows = np.zeros((groups * oc * lanes, span * inner, *taps), weight.dtype)
        for block in range(machine.blocks(workload.out_channels)):
            base = first_block(workload, machine, block, shared) * lanes
            stop = min((block + 1) * lanes, workload.out_channels)
            for group in range(block * lanes // per_group_out, (stop - 1) // per_group_out + 1):
                begin = max(block * lanes, group * per_group_out)
                end = min(stop, (group + 1) * per_group_out)
                column = group * per_group_in - base
                rows[begin:end, column : column + per_group_in] = weight[begin:end]
        rows = rows.reshape(groups, oc, lanes, span, steps, size, *taps)
        outer = (6, 7, 3) if packs else (3, 6, 7)
        rows = np.ascontiguousarray(rows.transpose(0, *outer, 4, 1, 2, 5)).reshape(shape)
        return arranged(rows, workload, machine)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """The copy if INT8 data are widened or joined; each thread's widened weights, and sums."""
        if workload.types.is_integer and config.get("vectors", 0):
            return padded_rows.PaddedRows(workload).workspace_bytes(machine)
        found = widened_bytes(workload, machine)
        if config.get("kc", 0):
            # the sums of a group of output blocks
            groups = -(-machine.blocks(workload.out_channels) // config.int("oc"))
            pixels = workload.out_height * workload.out_width
            sums = 4 * pixels * config.int("oc") * machine.channel_block
            found += sums * min(machine.cores, workload.out_planes * groups)
        if config.get("wide", 0):
            packed = self.packed_weight_shape(workload, machine, config)
            found += wide_bytes(packed, workload, machine) * machine.cores
        return found

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """MACs with padded channels and with the zeros between groups."""
        pixels = workload.out_planes * workload.out_height * workload.out_width
        blocks = machine.blocks(workload.out_channels)
        if self._selects(workload, machine):
            products = blocks * (workload.in_channels // workload.groups)
        elif self._skips(workload, machine):
            oc = config.int("oc")
            tiles = enumerate(tile_channels(workload, machine, oc))
            products = sum(
                min(oc, blocks - tile * oc) * (end - begin) for tile, (begin, end) in tiles
            )
        else:
            read, steps = dword_blocks(workload, machine, halves=self.skips)
            products = blocks * read * steps * dword_size(workload, machine)
        return pixels * products * machine.channel_block * prod(workload.weight_shape[2:])

    def _sharing(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Output blocks that read the same input blocks."""
        return config.int("oc") if self._skips(workload, machine) else 1

    def _selects(self, workload: Conv2dWorkload, machine: Machine) -> bool:
        return self.skips and selects_groups(workload, machine)

    def _skips(self, workload: Conv2dWorkload, machine: Machine) -> bool:
        return self.skips and skips_channels(workload, machine)

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """As the base class; parts of a reduction round as much as a part and the sum of all."""
        if not config.get("kc", 0):
            return super().error_estimate(workload, machine, config)
        parts = machine.blocks(workload.in_channels) / config.int("kc")
        return rounding_of_sum(workload.taps / parts + parts)

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: Machine) -> bool:
        """As the base class, and where the last step of a block has a lane without a channel."""
        step = workload.in_channels % dword_size(workload, machine)
        return step > 0 or super().adds_foreign_products(workload, machine)


class WholeBlocks(Direct):
    """Direct convolution that reads whole blocks, with weights for any reader of whole blocks."""

    skips = False
