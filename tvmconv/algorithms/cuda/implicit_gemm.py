"""Convolution as a matrix product whose input matrix exists in shared memory only.

Output channels are the rows of the product, pixels of all images its columns, and taps times
channels what it sums over: the implicit GEMM of cuDNN (Chetlur et al. 2014). A block of threads
gathers the input of one slice of the sum at a time. With ``split`` above 1, blocks sum parts of
the reduction into a workspace, and a second kernel adds them up: small images have too few pixels
for all multiprocessors.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.cuda.base import CudaAlgorithm, CudaOperands
from tvmconv.algorithms.cuda.slices import Slices
from tvmconv.algorithms.padding import input_plane, inside_image, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Tensor

# pixels that are read as one vector where a layer allows it
VECTOR = 4


def reads_vectors(workload: Conv2dWorkload) -> bool:
    """Whether neighbouring pixels of the output are neighbours in the input, by whole vectors."""
    w = workload
    whole = w.kernel_h == w.kernel_w == w.stride_h == w.stride_w == 1 and not w.has_padding
    return whole and not w.is_volume and w.in_height * w.in_width % VECTOR == 0


def slices_of(workload: Conv2dWorkload, config: Config) -> Slices:
    """The slices that a config asks for."""
    return Slices(workload, str(config["slice"]), config.int("k"))


def padded_rows(workload: Conv2dWorkload, config: Config) -> int:
    """Output channels of one group, rounded up to whole tiles."""
    m = config.int("m")
    return -(-(workload.out_channels // workload.groups) // m) * m


def pack_slices(
    weight: FloatArray, workload: Conv2dWorkload, slices: Slices, rows: int
) -> FloatArray:
    """An OIHW weight as ``(groups, slices, values of a slice, rows)``.

    Zeros stand behind the channels and behind the values of a run.
    """
    w = workload
    packed = np.zeros((w.groups, slices.count, slices.size, rows), weight.dtype)
    channels = w.out_channels // w.groups
    for part, value in np.ndindex(slices.count, slices.size):
        if part % slices.run_slices * slices.size + value < slices.run_values:
            c, row, column = cast("tuple[int, int, int]", slices.place(part, value))
            taken = weight[:, c, row, column].reshape(w.groups, -1)
            packed[:, part, value, :channels] = taken
    return packed


class ImplicitGemm(CudaAlgorithm):
    """One product for each group, of tiles of ``m`` channels by ``p`` pixels.

    Knobs read by the expression: ``m``, ``p``, ``k`` and ``slice`` (see
    :class:`~tvmconv.algorithms.cuda.slices.Slices`), ``split``, the parts of the reduction.
    """

    name = "implicit_gemm"
    blocks = ("columns", "conv2d", "output")

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Depthwise layers have one row of the product, single pixels one column.

        Of one column TVM does not see which sums are one thread's.
        """
        w = workload
        if w.is_depthwise:
            return "a depthwise layer is no matrix product; use the depthwise algorithm"
        if w.out_planes * w.out_height * w.out_width == 1:
            return "one output pixel is a matrix by a vector; use direct"
        return None

    def compute(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> list[Tensor]:
        """Blocks ``columns``, ``conv2d`` and ``output``, which adds the parts up."""
        from tvmconv.tvm_api import te

        w, slices, split = workload, slices_of(workload, config), config.int("split")
        packed = self.packed_weight_shape(w, machine, config)
        given = CudaOperands.of(w, packed)
        area = w.out_height * w.out_width
        pixels, tile = w.out_planes * area, config.int("p")
        padded = -(-pixels // tile) * tile
        parts = slices.count // split

        def gather(g: Expr, part: Expr, value: Expr, p: Expr) -> Expr:
            c, row, s = slices.place(part, value)
            r = row % w.kernel_h
            q = p % area
            y = q // w.out_width * w.stride_h + r * w.dilation_h - w.pad_top
            x = q % w.out_width * w.stride_w + s * w.dilation_w - w.pad_left
            plane, tests = input_plane(w, p // area, row // w.kernel_h)
            if slices.is_ragged:
                tests = [*tests, part % slices.run_slices * slices.size + value < slices.run_values]
            if padded > pixels:
                # of whole vectors, where there are such
                size = VECTOR if area % VECTOR == 0 else 1
                tests = [*tests, p // size < pixels // size]
            read = given.data[plane, g * slices.channels + c, y, x]
            return inside_image(read, y, x, w, tests) if w.has_padding else zero_unless(tests, read)

        columns = te.compute((w.groups, slices.count, slices.size, padded), gather, name="columns")
        part = te.reduce_axis((0, parts), "part")
        value = te.reduce_axis((0, slices.size), "value")

        def multiply(z: Expr, g: Expr, m: Expr, p: Expr) -> Expr:
            index = z * parts + part
            factors = given.weight[g, index, value, m] * columns[g, index, value, p]
            return te.sum(factors, axis=[part, value])

        sums = self.reduction((split, w.groups, packed[3], padded), multiply)

        return given.arguments(self.finished_parts(given, sums, config))

    def finished_parts(self, given: CudaOperands, sums: Tensor, config: Config) -> Tensor:
        """Block ``output`` of sums ``(parts, groups, M, pixels)``: added up, and the epilogue."""
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
        """``(groups, slices, values of a slice, M)``, M the channels of whole tiles."""
        slices = slices_of(workload, config)
        return (workload.groups, slices.count, slices.size, padded_rows(workload, config))

    def pack_weight(
        self,
        weight: FloatArray,
        workload: Conv2dWorkload,
        machine: CudaMachine,
        config: Config,
    ) -> FloatArray:
        """Re-order an OIHW weight; zeros behind the channels and behind the values of a run."""
        slices = slices_of(workload, config)
        return pack_slices(weight, workload, slices, padded_rows(workload, config))

    def workspace_bytes(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """The sums of all parts, where there is more than one."""
        w, split, tile = workload, config.int("split"), config.int("p")
        if split == 1:
            return 0
        rows = padded_rows(w, config)
        pixels = w.out_planes * w.out_height * w.out_width
        return 4 * split * w.groups * rows * (-(-pixels // tile) * tile)

    def multiplies(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> int:
        """Those of whole tiles and slices."""
        w, slices, tile = workload, slices_of(workload, config), config.int("p")
        values = w.groups * slices.count * slices.size
        pixels = w.out_planes * w.out_height * w.out_width
        return values * padded_rows(w, config) * (-(-pixels // tile) * tile)

    def error_estimate(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> float:
        """Rounding of sums over all taps, as of the processors' direct convolution."""
        return float(2.0**-24 * (2.0 + 0.35 * workload.taps**0.5))
