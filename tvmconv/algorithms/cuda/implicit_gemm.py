"""Convolution as a matrix product whose input matrix exists in shared memory only.

Output channels are the rows of the product, and pixels of all images its columns. The reduction is
over taps times channels. It is the implicit GEMM of cuDNN (Chetlur et al. 2014). A block of
threads gathers the input of one slice of the reduction at a time. Small images have too few pixels
for all multiprocessors. With ``split`` above 1, blocks therefore sum parts of the reduction into a
workspace, and a second kernel adds the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import cast

import numpy as np

from tvmconv.algorithms.base import FloatArray, reduction_axes
from tvmconv.algorithms.cuda.base import CudaAlgorithm, CudaOperands
from tvmconv.algorithms.cuda.slices import CHANNELS, KINDS, Slices
from tvmconv.algorithms.padding import input_plane, inside_image, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Tensor

# pixels that are read as one vector if a layer allows it
VECTOR = 4


def reads_vectors(workload: Conv2dWorkload) -> bool:
    """Whether neighboring pixels of the output are neighbors in the input, in whole vectors."""
    w = workload
    whole = w.kernel_h == w.kernel_w == w.stride_h == w.stride_w == 1 and not w.has_padding
    return whole and not w.is_volume and w.in_height * w.in_width % VECTOR == 0


class ColumnSource(Enum):
    """The array from which a GEMM gathers its columns."""

    IMAGE = "image"
    # the image or a matrix, whose pixels are read by vectors
    VECTORS = "vectors"
    # the window tensor of im2win
    WINDOWS = "windows"


def slices_of(workload: Conv2dWorkload, config: Config) -> Slices:
    """The slices of a configuration."""
    return Slices(workload, str(config["slice"]), config.int("k"))


def padded_rows(workload: Conv2dWorkload, config: Config) -> int:
    """Output channels of one group, rounded up to whole tiles."""
    m = config.int("m")
    return -(-(workload.out_channels // workload.groups) // m) * m


def pack_slices(
    weight: FloatArray, workload: Conv2dWorkload, slices: Slices, rows: int
) -> FloatArray:
    """An OIHW weight as ``(groups, slices, values of a slice, rows)``, padded with zeros."""
    w = workload
    packed = np.zeros((w.groups, slices.count, slices.size, rows), weight.dtype)
    channels = w.out_channels // w.groups
    for part, value in np.ndindex(slices.count, slices.size):
        if part % slices.run_slices * slices.size + value < slices.run_values:
            c, row, column = cast("tuple[int, int, int]", slices.place(part, value))
            selected = weight[:, c, row, column].reshape(w.groups, -1)
            packed[:, part, value, :channels] = selected
    return packed


class ImplicitGemm(CudaAlgorithm):
    """One product for each group, of tiles of ``m`` channels by ``p`` pixels.

    The expression reads the parameters ``m``, ``p``, ``k`` and ``slice`` (see
    :class:`~tvmconv.algorithms.cuda.slices.Slices`), and ``split``, the parts of the reduction.
    """

    name = "implicit_gemm"
    blocks: tuple[str, ...] = ("columns", "conv2d", "output")
    # whether a parameter selects the contents of slices
    slice_knob = True

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Depthwise layers have one row of the product, single pixels one column.

        TVM cannot distribute one column over threads.
        """
        w = workload
        if w.is_depthwise:
            return "a depthwise layer is not a matrix product; use the depthwise algorithm"
        if w.out_planes * w.out_height * w.out_width == 1:
            return "one output pixel is a matrix by a vector; use direct"
        return None

    def slices(self, workload: Conv2dWorkload, config: Config) -> Slices:
        """The slices of the reduction."""
        return slices_of(workload, config)

    def slice_kinds(self, workload: Conv2dWorkload) -> tuple[str, ...]:
        """The kinds of slices: one kind for a 1x1 window, and for volumes to limit compile time."""
        whole = workload.kernel_h == workload.kernel_w == 1
        return (CHANNELS,) if whole or workload.is_volume else KINDS

    def column_source(self, workload: Conv2dWorkload, config: Config) -> ColumnSource:
        """The array from which columns are gathered."""
        return ColumnSource.VECTORS if reads_vectors(workload) else ColumnSource.IMAGE

    def stored_bytes(self, workload: Conv2dWorkload, config: Config) -> int:
        """Bytes that a first kernel writes for the GEMM."""
        return 0

    def reader(self, given: CudaOperands, config: Config) -> Callable[..., Expr]:
        """``read(tests, channel, row, column, p)``: the input at a tap of pixel ``p``.

        Pixels are numbered over all output planes, rows over all planes of the window. The value is
        zero in the padding, and if one of the tests fails.
        """
        w = given.workload
        area = w.out_height * w.out_width

        def read(tests: Sequence[Expr], c: Expr, row: Expr, s: Expr, p: Expr) -> Expr:
            r = row % w.kernel_h
            q = p % area
            y = q // w.out_width * w.stride_h + r * w.dilation_h - w.pad_top
            x = q % w.out_width * w.stride_w + s * w.dilation_w - w.pad_left
            plane, inside = input_plane(w, p // area, row // w.kernel_h)
            tests = [*inside, *tests]
            value = given.data[plane, c, y, x]
            if w.has_padding:
                return inside_image(value, y, x, w, tests)
            return zero_unless(tests, value)

        return read

    def gatherer(
        self, given: CudaOperands, config: Config, vector: int = 1
    ) -> Callable[[Expr, Expr, Expr, Expr], Expr]:
        """``gather(group, slice, value, p)``: an element of the GEMM's right operand.

        It is zero after the values of a run. After the last pixel, single values repeat that pixel,
        because their accumulators are not stored. Vectors are zero there, and one test serves a
        whole vector.
        """
        from tvmconv.tvm_api import tirx

        w, slices = given.workload, self.slices(given.workload, config)
        pixels, tile = w.out_planes * w.out_height * w.out_width, config.int("p")
        read = self.reader(given, config)
        single = vector == 1 or self.column_source(w, config) is not ColumnSource.VECTORS

        def gather(g: Expr, part: Expr, value: Expr, p: Expr) -> Expr:
            c, row, s = slices.place(part, value)
            tests = []
            if slices.is_ragged:
                tests = [part % slices.run_slices * slices.size + value < slices.run_values]
            if pixels % tile and single:
                p = tirx.min(p, pixels - 1)
            elif pixels % tile:
                tests = [*tests, p // vector < pixels // vector]
            return read(tests, g * slices.channels + c, row, s, p)

        return gather

    def compute(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> list[Tensor]:
        """Blocks ``columns``, ``conv2d`` and ``output``, which adds the parts."""
        from tvmconv.tvm_api import te

        w, slices, split = workload, self.slices(workload, config), config.int("split")
        packed = self.packed_weight_shape(w, machine, config)
        given = CudaOperands.of(w, packed)
        area = w.out_height * w.out_width
        pixels, tile = w.out_planes * area, config.int("p")
        padded = -(-pixels // tile) * tile
        parts = slices.count // split

        gather = self.gatherer(given, config, VECTOR if area % VECTOR == 0 else 1)
        columns = te.compute((w.groups, slices.count, slices.size, padded), gather, name="columns")
        part, value = reduction_axes(part=parts, value=slices.size)

        def multiply(z: Expr, g: Expr, m: Expr, p: Expr) -> Expr:
            index = z * parts + part
            factors = given.weight[g, index, value, m] * columns[g, index, value, p]
            return te.sum(factors, axis=[part, value])

        sums = self.reduction((split, w.groups, packed[3], padded), multiply)
        return given.arguments(self.finished_parts(given, sums, config))

    def finished_parts(self, given: CudaOperands, sums: Tensor, config: Config) -> Tensor:
        """Block ``output``: adds the parts ``(parts, groups, M, pixels)``, then the epilogue."""
        from tvmconv.tvm_api import te

        w, split = given.workload, config.int("split")
        area, channels = w.out_height * w.out_width, w.out_channels // w.groups

        def finish(n: Expr, g: Expr, m: Expr, q: Expr) -> Expr:
            place = (n, g * channels + m, q // w.out_width, q % w.out_width)
            total = sums[0, g, m, n * area + q]
            for z in range(1, split):
                total = total + sums[z, g, m, n * area + q]
            return given.finished(total, place)

        rows = te.compute((w.out_planes, w.groups, channels, area), finish, name="output")
        return te.compute(
            w.result_shape,
            lambda n, k, h, x: rows[n, k // channels, k % channels, h * w.out_width + x],
            name="unflatten",
        )

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> tuple[int, ...]:
        """``(groups, slices, values of a slice, M)`` with the channels ``M`` of whole tiles."""
        slices = self.slices(workload, config)
        return (workload.groups, slices.count, slices.size, padded_rows(workload, config))

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> FloatArray:
        """Re-order an OIHW weight, padded with zeros."""
        slices = self.slices(workload, config)
        return pack_slices(weight, workload, slices, padded_rows(workload, config))

    def workspace_bytes(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """The array of a first kernel, and the accumulators of all parts if there are several."""
        w, split, tile = workload, config.int("split"), config.int("p")
        stored = self.stored_bytes(w, config)
        if split == 1:
            return stored
        rows = padded_rows(w, config)
        pixels = w.out_planes * w.out_height * w.out_width
        return stored + 4 * split * w.groups * rows * (-(-pixels // tile) * tile)

    def multiplies(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> int:
        """Multiplications of whole tiles and slices."""
        w, slices, tile = workload, self.slices(workload, config), config.int("p")
        values = w.groups * slices.count * slices.size
        pixels = w.out_planes * w.out_height * w.out_width
        return values * padded_rows(w, config) * (-(-pixels // tile) * tile)
