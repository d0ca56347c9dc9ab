"""Depthwise convolution on blocked layouts: one filter a channel, no reduction over channels.

The lanes of a channel block are independent. The tensor expression sums products of one input
vector and one weight vector over the taps (Zhang et al. 2018, "High Performance Zero-Memory
Overhead Direct Convolutions", section 4, without the channel reduction).
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, depth_axes, kernel_row, reduction_axes
from tvmconv.algorithms.depthwise.small_groups import (
    grouped_sum,
    has_small_groups,
    pack_groups,
    packed_group_shape,
)
from tvmconv.algorithms.integer.dwords import Factors, dword_size, has_colliding_weights, is_negated
from tvmconv.algorithms.multiply import multiply_of
from tvmconv.algorithms.operands import Operands, output_shape, split_outputs
from tvmconv.algorithms.padding import input_plane, inside_image, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.errors import WorkloadError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

UNIT_ROUNDOFF = 2.0**-24


class Depthwise(Algorithm):
    """Direct depthwise convolution, NCHWc in and out, weight packed ``(C/c, T*R, S, c)``.

    Small groups are computed likewise, with vectors of inputs whose lanes are permuted:
    :mod:`~tvmconv.algorithms.depthwise.small_groups`.
    """

    name = "depthwise"
    integers = True
    blocks = ("depthwiseconv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers whose groups are more than a few channels."""
        if not workload.is_depthwise and not has_small_groups(workload, machine):
            return "it is not depthwise, and its groups do not share vectors of channels"
        if workload.data_layout != "NCHWc":
            return "its input is not channel-blocked"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """Data, weight, [bias], [residual], output."""
        from tvmconv.operators import products

        w = workload
        packed = self.packed_weight_shape(w, machine, config)
        given = Operands.of(w, machine, packed, _packed_type(w, machine))
        if not w.is_depthwise:
            sums = self.reduction(
                output_shape(w, machine), grouped_sum(given, w, machine), "depthwiseconv2d"
            )
            return given.arguments(given.output(sums, begun=True))
        r, s = reduction_axes(r=dword_rows(w, machine), s=w.kernel_w)
        depth = depth_axes(w)

        def tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            row = h * w.stride_h + r * w.dilation_h - w.pad_top
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            weight = given.weight[b, kernel_row(w, depth, r), s, lane]
            pixel = given.data[plane, b, row, column, lane]
            if given.zero is None:
                product = inside_image(multiplied(pixel, weight), row, column, w, tests)
            else:
                pixel = inside_image(pixel, row, column, w, tests, given.zero[0])
                product = multiplied(pixel, weight)
            return given.summed(product, [*depth, r, s], (n, b, h, x, lane))

        def dword_tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            zero = None if given.zero is None else given.zero[0]

            def value(place: int) -> Expr:
                row = h // shared * step + (r * size + place) * w.dilation_h - w.pad_top
                pixel = given.data[plane, b, row, column, lane]
                below = [row < w.in_height] if lowest - w.pad_top >= w.in_height else []
                value = inside_image(pixel, row, column, w, [*tests, *below], zero)
                # weights of rows after the last are zero, so that these rows need not be read
                exists = [r * size + place < rows] if dwords > 1 and rows % size else []
                return zero_unless(exists, value)

            row = (depth[0] * dwords + r if depth else r) * shared + h % shared
            values = [value(place) for place in range(min(size, rows))]
            product = factors.packed_product(values, b, row, s, lane)
            return given.summed(product, [*depth, r, s], (n, b, h, x, lane))

        multiplied = products.tap if _has_paired_taps(w, machine) else given.product
        factors, size, dwords = Factors(given), rows_of_dword(w, machine), dword_rows(w, machine)
        shared = rows_that_share(w, machine, config)
        step = shared * w.stride_h
        # rows that the shared dwords of several output rows cover, and the last row that is read
        rows = w.kernel_h + step - w.stride_h
        lowest = (w.out_height - 1) // shared * step + (rows - 1) * w.dilation_h
        tap = dword_tap if size > 1 else tap
        total = self.reduction(output_shape(w, machine), tap, "depthwiseconv2d")
        return given.arguments(given.output(total, begun=True))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(C/c, T*R, S, c)``, or with dwords of ``i`` rows ``(C/c, T*(R/i)*P, S, c, i)``.

        ``P`` rows of outputs share dwords, in which their weights begin at different rows.
        Groups of ``I`` inputs have ``(K/c, T*R, I, S, c)``.
        """
        if not workload.is_depthwise:
            return packed_group_shape(workload, machine)
        w, lanes, size = workload, machine.channel_block, rows_of_dword(workload, machine)
        rows = w.kernel_d * dword_rows(w, machine) * rows_that_share(w, machine, config)
        taps = (rows, w.kernel_w)
        shape = (machine.blocks(w.in_channels), *taps, lanes)
        return (*shape, size) if size > 1 else shape

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """OIHW to :meth:`packed_weight_shape`, surplus channels and rows zero.

        Raises :class:`WorkloadError` if products of these weights are not exact.
        """
        if _has_paired_taps(workload, machine) and has_colliding_weights(
            weight, workload.groups, machine
        ):
            raise WorkloadError(
                f"weights of {workload} are -128 in two taps of one channel, and their products "
                "exceed 16 bits. Expected at most one -128 in a channel. Use int16 weights."
            )
        if not workload.is_depthwise:
            return pack_groups(weight, machine)
        w, size = workload, rows_of_dword(workload, machine)
        split = split_outputs(weight[:, 0], machine.blocks(w.out_channels), machine.channel_block)
        split = split.transpose(0, 2, 3, 1)
        if size == 1:
            return np.ascontiguousarray(split)
        blocks, _, columns, lanes = split.shape
        dwords, shared = dword_rows(w, machine), rows_that_share(w, machine, config)
        split = split.reshape(blocks, w.kernel_d, w.kernel_h, columns, lanes)
        rows = np.zeros((blocks, w.kernel_d, shared, dwords * size, columns, lanes), weight.dtype)
        for output in range(shared):
            first = output * w.stride_h
            rows[:, :, output, first : first + w.kernel_h] = split
        rows = rows.reshape(blocks, w.kernel_d, shared, dwords, size, columns, lanes)
        rows = rows.transpose(0, 1, 3, 2, 5, 6, 4).astype(_packed_type(w, machine))
        rows = rows.reshape(self.packed_weight_shape(w, machine, config))
        return np.ascontiguousarray(-rows if is_negated(w, machine) else rows)

    def packed_weight_bytes(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> int:
        """Two bytes for each element of a 2-way dot product."""
        shape = self.packed_weight_shape(workload, machine, config)
        return prod(shape) * itemsize(_packed_type(workload, machine))

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of all lanes, surplus ones included."""
        padded = machine.blocks(workload.out_channels) * machine.channel_block
        return workload.macs // workload.out_channels * padded

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: Machine) -> bool:
        """False: every lane is a separate channel."""
        return False

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Random-walk growth of rounding errors over one output's taps; none of integers."""
        if workload.types.is_integer:
            return 0.0
        return UNIT_ROUNDOFF * float(np.sqrt(workload.taps))


def rows_of_dword(workload: Conv2dWorkload, machine: Machine) -> int:
    """Rows of a kernel whose products one instruction adds; 1 without packed dwords.

    Vertically adjacent pixels are packed into one dword, which serves all columns of the kernel.
    By lane, only ``sdot`` uses dwords. Other instructions multiply narrow integers directly.
    """
    if not multiply_of(workload, machine).is_packed:
        return 1
    packs = workload.types.data == "uint8" and not machine.code.by_lane
    return dword_size(workload, machine) if packs or _has_short_dots(workload, machine) else 1


def rows_that_share(workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
    """Rows of outputs that share dwords; they must be rows of one register tile."""
    most, tile_h = most_rows_that_share(workload, machine), config.int("tile_h")
    return max(rows for rows in range(1, most + 1) if tile_h % rows == 0)


def most_rows_that_share(workload: Conv2dWorkload, machine: Machine) -> int:
    """Maximum rows of outputs that share dwords, by weights that begin lower in the dword.

    A dword of four rows of pixels has the three rows of each of two neighboring outputs.
    """
    w = workload
    if not _has_short_dots(w, machine) or w.dilation_h > 1:
        return 1
    spare = dword_rows(w, machine) * rows_of_dword(w, machine) - w.kernel_h
    return spare // w.stride_h + 1


def _has_paired_taps(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether products of two taps are added in 16 bits.

    Packing the pixels of a strided layer would take as long as it saves.
    """
    return workload.stride_w == 1 and multiply_of(workload, machine).adds_pairs


def _has_short_dots(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether one INT8 dot-product instruction multiplies vectors of 128 bits."""
    multiply = multiply_of(workload, machine)
    # SVE's instruction multiplies the first 128 bits of longer vectors, too
    of_segments = multiply.of_segments and not machine.exact_vector_bits
    return (multiply.by_lane or of_segments) and multiply.width > 1


def dword_rows(workload: Conv2dWorkload, machine: Machine) -> int:
    """Rows of the packed kernel: rows of taps, or rows of dwords."""
    return -(-workload.kernel_h // rows_of_dword(workload, machine))


def _packed_type(workload: Conv2dWorkload, machine: Machine) -> str:
    """Type of the packed elements: the weight's, or the type of a dword's elements."""
    if rows_of_dword(workload, machine) == 1:
        return workload.types.weight
    return "int8" if multiply_of(workload, machine).width == 4 else "int16"
