"""Winograd convolution F(mh x mw, R x S) on GPUs, in three kernels.

Lavin and Gray (2016), with the points, matrices and error estimate of the CPU algorithm. Tensors
between kernels have tiles innermost, so that neighboring threads access neighboring values.

1. Filters are transformed when the model is built, in FP64.
2. ``patch``, ``columns``, ``transform``: ``V = B^T d B`` of every input tile, in one thread's
   registers; written as ``(products, groups, channels, tiles)``.
3. ``conv2d``: for each of the ``n_h * n_w`` products a GEMM over the input channels. With
   ``split`` above 1, blocks sum parts of the channels, because few tiles do not fill the GPU.
4. ``parts``, ``rows``, ``pixels``, ``output``: the parts are added up, ``A^T M A`` and the
   epilogue, in one thread's registers.
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.algorithms.base import FloatArray, reduction_axes
from tvmconv.algorithms.cuda.base import MOST_VALUES, CudaAlgorithm, CudaOperands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.algorithms.winograd.tiles import (
    Tiling,
    filter_taps,
    tile_error,
    tiling,
    unsuited_window,
)
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Tensor

# products along an axis: a thread holds all values of a tile in registers
MOST_PRODUCTS = 6
# multiple to which tiles and channels are rounded up to check the limit of 32-bit indices
_WHOLE = 128


class Winograd(CudaAlgorithm):
    """Convolution of stride 1 with at most 6 products per axis.

    The expression reads the parameters ``mh`` and ``mw``, the output tile. ``m`` and ``p`` are
    output channels and tiles of a block of the products, and ``k`` the channels of a slice, all
    padded with zeros. ``split`` are the parts of the sum over channels.
    """

    name = "winograd"
    blocks = ("patch", "columns", "transform", "conv2d", "parts", "rows", "pixels", "output")
    stages = (
        ("input transform", ("patch", "columns", "transform")),
        ("products", ("conv2d",)),
        ("output transform", ("parts", "rows", "pixels", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: CudaMachine) -> str | None:
        """Strides, dilation, volumes, and kernels of one or many taps."""
        w = workload
        if w.is_volume:
            return "it sums over no depth; use implicit_gemm"
        if max(w.kernel_h, w.kernel_w) >= MOST_PRODUCTS:
            return f"a {w.kernel_h}x{w.kernel_w} kernel needs more than {MOST_PRODUCTS} points"
        if reason := unsuited_window(w):
            return reason
        if not tile_sizes(w):
            return f"it has more than {MOST_VALUES} transformed values, the limit of 32-bit indices"
        return None

    def compute(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> list[Tensor]:
        """See the module; tiles are numbered across the whole batch."""
        from tvmconv.algorithms.winograd.transforms import choose, input_rows, output_rows
        from tvmconv.tvm_api import te

        w, tiles = workload, tiling(workload, config)
        tall, wide = tiles.vertical, tiles.horizontal
        packed = self.packed_weight_shape(w, machine, config)
        given = CudaOperands.of(w, packed)
        _, groups, slices, size, rows_padded = packed
        split = config.int("split")
        channels, padded = w.in_channels // groups, padded_tiles(tiles, config)
        lowest = (tiles.rows - 1) * tiles.mh + tall.n - 1 - w.pad_top
        rightmost = (tiles.columns - 1) * tiles.mw + wide.n - 1 - w.pad_left

        def read(g: Expr, c: Expr, t: Expr, i: Expr, j: Expr) -> Expr:
            y = t // tiles.columns % tiles.rows * tiles.mh + i - w.pad_top
            x = t % tiles.columns * tiles.mw + j - w.pad_left
            tests = [c < channels] if slices * size > channels else []
            tests += [t < tiles.count] if padded > tiles.count else []
            image = t // (tiles.rows * tiles.columns)
            value = given.data[image, g * channels + c, y, x]
            return zero_unless([*tests, *image_tests(w, y, x, lowest, rightmost)], value)

        shape = (groups, slices * size, padded)
        patch = te.compute((*shape, tall.n, wide.n), read, name="patch")
        columns = te.compute(
            (*shape, tall.n, wide.n),
            lambda g, c, t, p, j: choose(
                p, input_rows(tall, [patch[g, c, t, i, j] for i in range(tall.n)])
            ),
            name="columns",
        )
        transformed = te.compute(
            (tiles.products, *shape),
            lambda p, g, c, t: choose(
                p % wide.n,
                input_rows(wide, [columns[g, c, t, p // wide.n, j] for j in range(wide.n)]),
            ),
            name="transform",
        )
        part, value = reduction_axes(part=slices // split, value=size)

        def multiply(z: Expr, p: Expr, g: Expr, m: Expr, t: Expr) -> Expr:
            index = z * (slices // split) + part
            factor = given.weight[p, g, index, value, m]
            return te.sum(factor * transformed[p, g, index * size + value, t], axis=[part, value])

        product = self.reduction((split, tiles.products, groups, rows_padded, padded), multiply)
        out_channels = w.out_channels // groups
        shape = (groups, out_channels, tiles.count)
        parts = te.compute(
            (*shape, tiles.products),
            lambda g, m, t, p: sum(
                (product[z, p, g, m, t] for z in range(1, split)), product[0, p, g, m, t]
            ),
            name="parts",
        )
        rows = te.compute(
            (*shape, tiles.mh, wide.n),
            lambda g, m, t, i, q: choose(
                i, output_rows(tall, [parts[g, m, t, p * wide.n + q] for p in range(tall.n)])
            ),
            name="rows",
        )
        pixels = te.compute(
            (*shape, tiles.mh, tiles.mw),
            lambda g, m, t, i, j: choose(
                j, output_rows(wide, [rows[g, m, t, i, q] for q in range(wide.n)])
            ),
            name="pixels",
        )

        def total(n: Expr, k: Expr, h: Expr, x: Expr) -> Expr:
            t = (n * tiles.rows + h // tiles.mh) * tiles.columns + x // tiles.mw
            return pixels[k // out_channels, k % out_channels, t, h % tiles.mh, x % tiles.mw]

        return given.arguments(given.output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> tuple[int, ...]:
        """``(products, groups, slices, channels of a slice, M)`` with channels of whole blocks."""
        w, m, k = workload, config.int("m"), config.int("k")
        slices = -(-(w.in_channels // w.groups) // k)
        rows = -(-(w.out_channels // w.groups) // m) * m
        return (tiling(w, config).products, w.groups, slices, k, rows)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> FloatArray:
        """``U = G g G^T`` of an OIHW weight, computed in FP64 and rounded once."""
        w, shape = workload, self.packed_weight_shape(workload, machine, config)
        _, groups, slices, size, rows = shape
        split = weight.reshape(groups, -1, *weight.shape[1:]).astype(np.float64).swapaxes(1, 2)
        padded = np.zeros((groups, slices * size, rows, w.kernel_h, w.kernel_w))
        padded[:, : split.shape[1], : split.shape[2]] = split
        result = np.empty(shape, weight.dtype)
        for p, taps in enumerate(filter_taps(tiling(w, config))):
            result[p] = np.tensordot(padded, taps, 2).reshape(shape[1:])
        return result

    def workspace_bytes(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """Transformed input, and products of all tiles and parts."""
        return sum(workspace_planes(workload, config))

    def multiplies(self, workload: Conv2dWorkload, machine: CudaMachine, config: Config) -> int:
        """Multiplications of whole blocks; transforms use additions and constants."""
        products, groups, slices, size, rows = self.packed_weight_shape(workload, machine, config)
        tiles = padded_tiles(tiling(workload, config), config)
        return products * groups * slices * size * rows * tiles

    def error_estimate(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> float:
        """As for CPUs: sums of the same values, over one group's channels."""
        return tile_error(tiling(workload, config), workload.in_channels // workload.groups)


def tile_sizes(workload: Conv2dWorkload) -> tuple[tuple[int, int], ...]:
    """Candidate output tiles: squares, or one row or column for kernels of that shape."""
    w = workload
    sizes = [
        (1 if w.kernel_h == 1 else m, 1 if w.kernel_w == 1 else m) for m in range(2, MOST_PRODUCTS)
    ]
    return tuple(size for size in sizes if has_tile(w, *size))


def has_tile(workload: Conv2dWorkload, mh: int, mw: int) -> bool:
    """Whether there are kernels of this output tile."""
    w, tiles = workload, Tiling(workload, mh, mw)
    products = (mh + w.kernel_h - 1, mw + w.kernel_w - 1)
    if min(mh, mw) < 1 or max(products) > MOST_PRODUCTS:
        return False
    channels = max(w.in_channels, w.out_channels) // w.groups
    whole = [-(-n // _WHOLE) * _WHOLE for n in (channels, tiles.count)]
    return prod(products) * w.groups * prod(whole) <= MOST_VALUES


def padded_tiles(tiles: Tiling, config: Config) -> int:
    """Tiles of the products, in whole blocks."""
    return -(-tiles.count // config.int("p")) * config.int("p")


def workspace_planes(workload: Conv2dWorkload, config: Config) -> tuple[int, int]:
    """Bytes of the transformed input and of the products."""
    w, tiles = workload, tiling(workload, config)
    values = 4 * tiles.products * w.groups * padded_tiles(tiles, config)
    of_group = ((w.in_channels, config.int("k")), (w.out_channels, config.int("m")))
    read, written = (-(-(channels // w.groups) // size) * size for channels, size in of_group)
    return values * read, values * written * config.int("split")
