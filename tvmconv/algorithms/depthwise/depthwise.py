"""Depthwise convolution on blocked layouts: one filter a channel, no reduction over channels.

Every lane of a channel block is independent, so the tensor expression is a sum over the taps of
one input vector times one weight vector (Zhang et al. 2018, "High Performance Zero-Memory Overhead
Direct Convolutions", section 4, with the channel reduction removed).
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, depth_axes, kernel_row
from tvmconv.algorithms.integer.dwords import Factors, has_colliding_weights, is_negated, word_size
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
    """Direct depthwise convolution, NCHWc in and out, weight packed ``(C/c, T*R, S, c)``."""

    name = "depthwise"
    integers = True
    blocks = ("depthwiseconv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Everything but one input and one output channel per group."""
        if not workload.is_depthwise:
            return "it is not depthwise (groups = input channels = output channels)"
        if workload.data_layout != "NCHWc":
            return "its input is not channel-blocked"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """Data, weight, [bias], [residual], output."""
        from tvmconv.operators import products
        from tvmconv.tvm_api import te

        w = workload
        packed = self.packed_weight_shape(w, machine, config)
        given = Operands.of(w, machine, packed, _packed_type(w, machine))
        r = te.reduce_axis((0, word_rows(w, machine)), name="r")
        s = te.reduce_axis((0, w.kernel_w), name="s")
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

        def word_tap(n: Expr, b: Expr, h: Expr, x: Expr, lane: Expr) -> Expr:
            column = x * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, n, depth[0] if depth else 0)
            zero = None if given.zero is None else given.zero[0]

            def value(place: int) -> Expr:
                row = h // shared * step + (r * size + place) * w.dilation_h - w.pad_top
                pixel = given.data[plane, b, row, column, lane]
                below = [row < w.in_height] if lowest - w.pad_top >= w.in_height else []
                value = inside_image(pixel, row, column, w, [*tests, *below], zero)
                # the weights of rows behind the last are zero, and so need not be read
                exists = [r * size + place < rows] if words > 1 and rows % size else []
                return zero_unless(exists, value)

            row = (depth[0] * words + r if depth else r) * shared + h % shared
            values = [value(place) for place in range(min(size, rows))]
            product = factors.packed_product(values, b, row, s, lane)
            return given.summed(product, [*depth, r, s], (n, b, h, x, lane))

        multiplied = products.tap if _has_paired_taps(w, machine) else given.product
        factors, size, words = Factors(given), rows_of_word(w, machine), word_rows(w, machine)
        shared = rows_that_share(w, machine, config)
        step = shared * w.stride_h
        # of a kernel as several rows of outputs have it, and the last one read
        rows = w.kernel_h + step - w.stride_h
        lowest = (w.out_height - 1) // shared * step + (rows - 1) * w.dilation_h
        tap = word_tap if size > 1 else tap
        total = self.reduction(output_shape(w, machine), tap, "depthwiseconv2d")
        return given.arguments(given.output(total, begun=True))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(C/c, T*R, S, c)``, or of words of ``i`` rows each ``(C/c, T*(R/i)*P, S, c, i)``.

        ``P`` rows of outputs share words, in which their weights begin at different rows.
        """
        w, lanes, size = workload, machine.channel_block, rows_of_word(workload, machine)
        rows = w.kernel_d * word_rows(w, machine) * rows_that_share(w, machine, config)
        taps = (rows, w.kernel_w)
        shape = (machine.blocks(w.in_channels), *taps, lanes)
        return (*shape, size) if size > 1 else shape

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """OIHW with I = 1 to :meth:`packed_weight_shape`, surplus channels and rows zero.

        Raises
        ------
        WorkloadError
            If products of these weights are not exact.
        """
        if _has_paired_taps(workload, machine) and has_colliding_weights(
            weight, workload.groups, machine
        ):
            raise WorkloadError(
                f"weights of {workload} are -128 in two taps of one channel, whose products 16 "
                "bits do not hold; give them as int16"
            )
        w, size = workload, rows_of_word(workload, machine)
        split = split_outputs(weight[:, 0], machine.blocks(w.out_channels), machine.channel_block)
        split = split.transpose(0, 2, 3, 1)
        if size == 1:
            return np.ascontiguousarray(split)
        blocks, _, columns, lanes = split.shape
        words, shared = word_rows(w, machine), rows_that_share(w, machine, config)
        split = split.reshape(blocks, w.kernel_d, w.kernel_h, columns, lanes)
        rows = np.zeros((blocks, w.kernel_d, shared, words * size, columns, lanes), weight.dtype)
        for output in range(shared):
            first = output * w.stride_h
            rows[:, :, output, first : first + w.kernel_h] = split
        rows = rows.reshape(blocks, w.kernel_d, shared, words, size, columns, lanes)
        rows = rows.transpose(0, 1, 3, 2, 5, 6, 4).astype(_packed_type(w, machine))
        rows = rows.reshape(self.packed_weight_shape(w, machine, config))
        return np.ascontiguousarray(-rows if is_negated(w, machine) else rows)

    def packed_weight_bytes(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> int:
        """Two bytes each where words are of pairs."""
        shape = self.packed_weight_shape(workload, machine, config)
        return prod(shape) * itemsize(_packed_type(workload, machine))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """None: the accumulators live in registers."""
        return 0

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of all lanes, surplus ones included."""
        padded = machine.blocks(workload.in_channels) * machine.channel_block
        return workload.macs // workload.in_channels * padded

    def adds_foreign_products(self, workload: Conv2dWorkload, machine: Machine) -> bool:
        """None: every lane is a channel of its own."""
        return False

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Random-walk growth of rounding errors over one output's taps; none of integers."""
        if workload.types.is_integer:
            return 0.0
        return UNIT_ROUNDOFF * float(np.sqrt(workload.taps))


def rows_of_word(workload: Conv2dWorkload, machine: Machine) -> int:
    """Rows of a kernel whose products one instruction adds; 1 where each has its own.

    Pixels below each other are put into one word, which serves all columns of the kernel.
    Where multiply-adds take lanes, instructions multiply narrow integers without words, but for
    ``sdot``.
    """
    if not multiply_of(workload, machine).is_packed:
        return 1
    if workload.types.data == "uint8" and not machine.code.by_lane:
        return word_size(workload, machine)
    return word_size(workload, machine) if _has_short_dots(workload, machine) else 1


def rows_that_share(workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
    """Rows of outputs that the same words serve, which must be rows of one register tile."""
    most, tile_h = most_rows_that_share(workload, machine), config.int("tile_h")
    return max(rows for rows in range(1, most + 1) if tile_h % rows == 0)


def most_rows_that_share(workload: Conv2dWorkload, machine: Machine) -> int:
    """Rows of outputs that the words of one serve, by weights that begin lower in them.

    A word of four rows of pixels has all three that each of two neighbouring outputs multiplies.
    """
    w = workload
    if not _has_short_dots(w, machine) or w.dilation_h > 1:
        return 1
    spare = word_rows(w, machine) * rows_of_word(w, machine) - w.kernel_h
    return spare // w.stride_h + 1


def _has_paired_taps(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether products of two taps are added in 16 bits.

    Pixels of a stride would have to be put together, which takes as long as what is saved.
    """
    return workload.stride_w == 1 and multiply_of(workload, machine).adds_pairs


def _has_short_dots(workload: Conv2dWorkload, machine: Machine) -> bool:
    """Whether NEON's vectors are multiplied by a dot product of bytes in one instruction."""
    multiply = multiply_of(workload, machine)
    return multiply.by_lane and multiply.width > 1


def word_rows(workload: Conv2dWorkload, machine: Machine) -> int:
    """Rows of the packed kernel: of taps, or of words of them."""
    return -(-workload.kernel_h // rows_of_word(workload, machine))


def _packed_type(workload: Conv2dWorkload, machine: Machine) -> str:
    """That of the elements of words that rows are put into, else the weight's."""
    if rows_of_word(workload, machine) == 1:
        return workload.types.weight
    return "int8" if multiply_of(workload, machine).width == 4 else "int16"
