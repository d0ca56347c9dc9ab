"""Winograd convolution F(mh x mw, R x S) on channel-blocked layouts.

Lavin and Gray (2016); stages and data flow of Wang et al. (2020), section 3, with lanes along
channels instead of products: every stage then works on the blocked layout of the activations.

1. Filters are transformed and packed when the model is built, in float64.
2. ``columns``, ``transform``: ``V = B^T d B`` of every input tile; padding is a predicate.
3. ``conv2d``: for each of the ``n_h * n_w`` products a matrix product over the input channels.
4. ``rows``, ``output``: ``A^T M A``, the epilogue, and only the pixels that exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray
from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import image_tests, input_plane, zero_unless
from tvmconv.algorithms.winograd_matrices import (
    MOST_PRODUCTS,
    Transforms,
    rounding_error,
    transforms,
)
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# growth of the error by the transforms of one axis, by products; fitted to measurements against
# float64 (docs/winograd.md)
_AMPLIFICATION = {1: 1.0, 2: 1.0, 3: 1.2, 4: 1.3, 5: 2.1, 6: 2.15, 7: 4.2, 8: 6.0}


@dataclass(frozen=True)
class Tiling:
    """Tiles of a workload's output: F(mh, R) down the columns and F(mw, S) along the rows."""

    workload: Conv2dWorkload
    mh: int
    mw: int

    @property
    def vertical(self) -> Transforms:
        """Matrices for columns of a tile."""
        return transforms(self.mh, self.workload.kernel_h)

    @property
    def horizontal(self) -> Transforms:
        """Matrices for rows of a tile."""
        return transforms(self.mw, self.workload.kernel_w)

    @property
    def products(self) -> int:
        """Multiplications per tile and pair of channels."""
        return self.vertical.n * self.horizontal.n

    @property
    def rows(self) -> int:
        """Rows of tiles in an image."""
        return -(-self.workload.out_height // self.mh)

    @property
    def columns(self) -> int:
        """Tiles in a row."""
        return -(-self.workload.out_width // self.mw)

    @property
    def count(self) -> int:
        """Tiles of the whole batch."""
        return self.workload.out_planes * self.rows * self.columns


def tiling(workload: Conv2dWorkload, config: Config) -> Tiling:
    """The tiles that a config asks for."""
    return Tiling(workload, config.int("mh"), config.int("mw"))


def summed_blocks(workload: Conv2dWorkload, machine: Machine) -> int:
    """Blocks of input channels that the products sum over, those of every plane of a kernel.

    A 3-D convolution is a 2-D one of as many times the channels: output planes share no
    transformed values, which saves keeping those of whole volumes.
    """
    return workload.kernel_d * machine.blocks(workload.in_channels)


def region_tiles(tiles: Tiling, config: Config) -> int:
    """Tiles whose transformed values are alive at a time."""
    return config.int("rh") * config.int("rw") if config.int("fused") else tiles.count


def plane_stride(tiles: Tiling, blocks: int, alive: int, machine: Machine) -> int:
    """Values from one plane of a transformed tensor, which holds one product's, to the next.

    A transform touches one line of all planes at a time. Where the size of a plane is a multiple
    of a large power of two, as on images of 64 or 128 columns, these lines would share few sets
    of L1; there a line is left free after each plane.

    Parameters
    ----------
    tiles
        The tiling.
    blocks
        Channel blocks of the tensor.
    alive
        Tiles that it holds at a time.
    machine
        The processor: its channel block and the geometry of its L1.
    """
    plane = blocks * alive * machine.channel_block
    size = itemsize(tiles.workload.types.accumulator)
    span = machine.l1d_way_bytes // size
    together = tiles.products * gcd(plane, span) / span
    return plane + machine.line_bytes // size if together > machine.l1d_ways else plane


class Winograd(Algorithm):
    """Dense convolution of stride 1 with at most 8 products per axis.

    Knobs read by the expression: ``mh``, ``mw``, the output tile; ``kr``, the output blocks that
    one register tile covers: weights are packed in groups of that many blocks. ``fused``,
    ``rh`` and ``rw`` decide how much workspace the schedule needs.
    """

    name = "winograd"
    blocks = ("patch", "columns", "transform", "conv2d", "rows", "output")
    stages = (
        ("input transform", ("patch", "columns", "transform")),
        ("products", ("conv2d",)),
        ("output transform", ("rows", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Strides, dilation, groups and 1x1 kernels leave nothing to save."""
        w = workload
        if w.data_layout != "NCHWc":
            return "it reads channel-blocked input, not plain NCHW"
        if (w.stride_h, w.stride_w) != (1, 1):
            return f"its tiles overlap only at stride 1, not {w.stride_h}x{w.stride_w}"
        if (w.dilation_h, w.dilation_w) != (1, 1):
            return f"it needs dense kernels, not dilation {w.dilation_h}x{w.dilation_w}"
        if w.groups != 1:
            return f"{w.groups} groups leave too few channels for its products"
        if w.kernel_h * w.kernel_w == 1:
            return "a 1x1 kernel has no products to save"
        if max(w.kernel_h, w.kernel_w) >= MOST_PRODUCTS:
            return f"a {w.kernel_h}x{w.kernel_w} kernel needs more than {MOST_PRODUCTS} points"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and the module; tiles are numbered across the whole batch."""
        from tvmconv.algorithms.winograd_rows import choose, input_rows, output_rows
        from tvmconv.tvm_api import te

        w, tiles, kr = workload, tiling(workload, config), config.int("kr")
        lanes = machine.channel_block
        in_blocks, out_blocks = summed_blocks(w, machine), machine.blocks(w.out_channels)
        tall, wide = tiles.vertical, tiles.horizontal
        given = Operands.of(w, machine, self.packed_weight_shape(w, machine, config))
        lowest = (tiles.rows - 1) * tiles.mh + tall.n - 1 - w.pad_top
        rightmost = (tiles.columns - 1) * tiles.mw + wide.n - 1 - w.pad_left

        # tiles of a patch: one, or a row of them, whose neighbours share columns
        group = tiles.columns if machine.code.transforms_strips else 1
        span = (group - 1) * tiles.mw + wide.n

        def read(cb: Expr, g: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
            t = g * group
            y = t // tiles.columns % tiles.rows * tiles.mh + i - w.pad_top
            x = t % tiles.columns * tiles.mw + j - w.pad_left
            plane_blocks = in_blocks // w.kernel_d
            image = t // (tiles.columns * tiles.rows)
            plane, tests = input_plane(w, image, cb // plane_blocks)
            block = cb % plane_blocks if w.is_volume else cb
            value = given.data[plane, block, y, x, c]
            return zero_unless([*tests, *image_tests(w, y, x, lowest, rightmost)], value)

        # a stage of its own: in every row of the transform it would be compiled again
        shape = (in_blocks, tiles.count // group, tall.n, span, lanes)
        patch = te.compute(shape, read, name="patch")
        columns = te.compute(
            shape,
            lambda cb, g, p, j, c: choose(
                p, input_rows(tall, [patch[cb, g, i, j, c] for i in range(tall.n)])
            ),
            name="columns",
        )

        def column(cb: Expr, t: Expr, p: Expr, j: int, c: Expr) -> Expr:
            return columns[cb, t // group, p, t % group * tiles.mw + j, c]

        transformed = te.compute(
            (tiles.products, in_blocks, tiles.count, lanes),
            lambda p, cb, t, c: choose(
                p % wide.n,
                input_rows(wide, [column(cb, t, p // wide.n, j, c) for j in range(wide.n)]),
            ),
            name="transform",
        )
        cb = te.reduce_axis((0, in_blocks), "cb")
        c = te.reduce_axis((0, lanes), "c")
        product = self.reduction(
            (tiles.products, out_blocks, tiles.count, lanes),
            lambda p, kb, t, k: te.sum(
                transformed[p, cb, t, c] * given.weight[p, kb // kr, cb, c, kb % kr, k],
                axis=[cb, c],
            ),
        )
        rows = te.compute(
            (out_blocks, tiles.count, tiles.mh, wide.n, lanes),
            lambda kb, t, i, q, k: choose(
                i,
                output_rows(tall, [product[p * wide.n + q, kb, t, k] for p in range(tall.n)]),
            ),
            name="rows",
        )

        def total(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            t = (n * tiles.rows + h // tiles.mh) * tiles.columns + x // tiles.mw
            values = [rows[kb, t, h % tiles.mh, q, k] for q in range(wide.n)]
            return choose(x % tiles.mw, output_rows(wide, values))

        return given.arguments(given.output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(n_h * n_w, K/(kr*k), T*C/c, c, kr, k)``, ``k`` and ``c`` the machine's block."""
        kr, lanes = config.int("kr"), machine.channel_block
        groups = -(-machine.blocks(workload.out_channels) // kr)
        blocks = summed_blocks(workload, machine)
        return (tiling(workload, config).products, groups, blocks, lanes, kr, lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """``U = G g G^T`` of an OIHW weight, computed in float64 and rounded once."""
        tiles, shape = tiling(workload, config), self.packed_weight_shape(workload, machine, config)
        products, groups, blocks, lanes, kr, _ = shape
        planes, size = workload.kernel_d, (workload.kernel_h, workload.kernel_w)
        padded = np.zeros((groups * kr * lanes, planes, blocks // planes * lanes, *size))
        split = weight.reshape(*weight.shape[:2], planes, *size).swapaxes(1, 2)
        padded[: workload.out_channels, :, : workload.in_channels] = split
        tall, wide = tiles.vertical.filter_matrix(), tiles.horizontal.filter_matrix()
        result = np.empty(shape, np.float32)
        for p in range(products):
            tap = np.outer(tall[p // wide.shape[0]], wide[p % wide.shape[0]])
            plane = np.tensordot(padded, tap, 2).reshape(groups, kr, lanes, blocks, lanes)
            result[p] = plane.transpose(0, 3, 4, 1, 2)
        return result

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Transformed input and products: of one region on each core, or of all tiles."""
        tiles = tiling(workload, config)
        alive = region_tiles(tiles, config)
        planes = sum(
            plane_stride(tiles, blocks, alive, machine)
            for blocks in (summed_blocks(workload, machine), machine.blocks(workload.out_channels))
        )
        regions = min(machine.cores, tiles.count // alive)
        return itemsize(workload.types.accumulator) * tiles.products * planes * regions

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Those of the products; transforms use additions and constants."""
        tiles = tiling(workload, config)
        blocks = summed_blocks(workload, machine) * machine.blocks(workload.out_channels)
        return tiles.products * tiles.count * blocks * machine.channel_block**2

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Rounding of the products' sums, amplified by the transforms of both axes."""
        tiles = tiling(workload, config)
        grown = _AMPLIFICATION[tiles.vertical.n] * _AMPLIFICATION[tiles.horizontal.n]
        return rounding_error(grown, workload.kernel_d * workload.in_channels)
