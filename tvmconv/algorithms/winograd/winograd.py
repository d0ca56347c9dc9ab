"""Winograd convolution F(mh x mw, R x S) on channel-blocked layouts.

Lavin and Gray (2016); stages and data flow of Wang et al. (2020), section 3, with lanes along
channels instead of products: every stage then works on the blocked layout of the activations.

1. Filters are transformed and packed when the model is built, in float64.
2. ``columns``, ``transform``: ``V = B^T d B`` of every input tile; padding is a predicate.
3. ``conv2d``: for each of the ``n_h * n_w`` products a GEMM over the input channels. Products are
   numbered down the columns of a tile, which stage 4 reads, while stage 2 writes rows. Both stages
   then access neighboring planes at a time. Threads that share products of different work compute
   and store them in another order.
4. ``rows``, ``output``: ``A^T M A``, the epilogue, and only the pixels that exist.

Strided layers, and layers with long kernels, are sums of layers with short dense kernels
(:mod:`tvmconv.algorithms.winograd.polyphase`). Their transformed values are stored like further
input channels.

INT8 layers have the same stages, with integer matrices, 16-bit transformed values, 2-way dot
products and 32-bit accumulators. They are exact (:mod:`tvmconv.algorithms.winograd.integers`).
"""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray
from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import image_tests, input_plane, zero_unless
from tvmconv.algorithms.winograd.integers import check_sums, divided, exact_below
from tvmconv.algorithms.winograd.polyphase import phase_count, phases, split_filter
from tvmconv.algorithms.winograd.tiles import (
    Tiling,
    block_channels,
    by_strips,
    filter_taps,
    is_representable,
    plane_strides,
    product_step,
    region_tiles,
    summed_blocks,
    summed_products,
    tile_error,
    tiling,
    transformed_multiply,
    transformed_type,
    unsuited_window,
)
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.multiply import multiply_of_shorts
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


class Winograd(Algorithm):
    """Convolution without dilation and groups, with at most 8 products per axis of a tile.

    The expression reads the parameters ``mh`` and ``mw``, the output tile, and ``kr``. A register
    tile and a group of packed weights have ``kr`` output blocks. ``fused``, ``rh`` and ``rw``
    determine the workspace.
    """

    name = "winograd"
    integers = True
    blocks = ("patch", "columns", "transform", "conv2d", "rows", "output")
    stages = (
        ("input transform", ("patch", "columns", "transform")),
        ("products", ("conv2d",)),
        ("output transform", ("rows", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers for which tiles save nothing, or whose values do not fit."""
        w = workload
        if w.data_layout != "NCHWc":
            return "it reads channel-blocked input, not plain NCHW"
        if reason := unsuited_window(w, by_phases=machine.code.phases or w.types.is_integer):
            return reason
        if w.groups != 1:
            return f"{w.groups} groups leave too few channels for its products"
        smallest = Tiling(w, *(1 if axis.taps == 1 else 2 for axis in phases(w)))
        if not is_representable(smallest):
            return f"a {w.kernel_h}x{w.kernel_w} kernel's transformed values exceed 16 bits"
        return None

    def exact_below(self, workload: Conv2dWorkload, config: Config) -> int | None:
        """See the base class; integer sums are divided at the end."""
        if not workload.types.is_integer:
            return None
        return exact_below(*tiling(workload, config).integer)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and the module; tiles are numbered across the whole batch."""
        from tvmconv.algorithms.winograd.transforms import choose, input_rows, output_rows
        from tvmconv.operators.math import literal
        from tvmconv.operators.products import dot, negative_dot, word
        from tvmconv.tvm_api import te, tirx

        w, tiles, kr = workload, tiling(workload, config), config.int("kr")
        lanes = machine.channel_block
        in_blocks, out_blocks = summed_blocks(w, machine), machine.blocks(w.out_channels)
        tall, wide = tiles.vertical, tiles.horizontal
        packed = self.packed_weight_shape(w, machine, config)
        given = Operands.of(w, machine, packed, self.packed_type(w))
        integer = w.types.is_integer
        down, along = phases(w)
        last = ((tiles.rows - 1) * tiles.mh + tall.n, (tiles.columns - 1) * tiles.mw + wide.n)
        lowest = (last[0] - 1) * down.stride + down.first(down.count - 1) - w.pad_top
        rightmost = (last[1] - 1) * along.stride + along.first(along.count - 1) - w.pad_left
        phase_blocks = in_blocks // phase_count(w)

        # tiles of a patch: one, or a row of them, whose neighbors share columns
        group = tiles.columns if by_strips(w, machine) else 1
        span = (group - 1) * tiles.mw + wide.n

        def read(cb: Expr, g: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
            t = g * group
            y = t // tiles.columns % tiles.rows * tiles.mh + i
            x = t % tiles.columns * tiles.mw + j
            y = y * down.stride + down.first(cb // phase_blocks // along.count) - w.pad_top
            x = x * along.stride + along.first(cb // phase_blocks % along.count) - w.pad_left
            cb = cb % phase_blocks
            plane_blocks = phase_blocks // w.kernel_d
            image = t // (tiles.columns * tiles.rows)
            plane, tests = input_plane(w, image, cb // plane_blocks)
            block = cb % plane_blocks if w.is_volume else cb
            value = given.data[plane, block, y, x, c]
            zero = None if given.zero is None else given.zero[0]
            read = zero_unless([*tests, *image_tests(w, y, x, lowest, rightmost)], value, zero)
            return read.astype(transformed_type(w)) if integer else read

        # a separate stage: otherwise every row of the transform would compile it again
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
        # phases of columns are between phases of rows and blocks of channels
        row_blocks = in_blocks // down.count
        a = te.reduce_axis((0, down.count), "a")
        b = te.reduce_axis((0, row_blocks), "cb")
        # Unrolled steps have no guards and make whole vectors of transformed values. LLVM would
        # move parts of 16-bit vectors one by one.
        multiply = transformed_multiply(w, machine)
        whole_block = multiply.is_packed and machine.code.by_lane
        steps = lanes // multiply.width if whole_block else packed[3]
        c = te.reduce_axis((0, steps), "c")
        axes = [a, b, c] if phase_count(w) > 1 else [b, c]

        step = product_step(tiles, config, machine)
        # the place of a product is its number times this
        back = pow(step, -1, tiles.products)

        def whole(p: Expr, value: Expr) -> Expr:
            # at infinity phases without a last tap are zero
            for phase, axis, size, n in (
                (b, along, phase_blocks, p // tall.n == wide.n - 1),
                (a, down, 1, p % tall.n == tall.n - 1),
            ):
                if axis.whole < axis.count:
                    bound = tirx.if_then_else(n, axis.whole * size, axis.count * size)
                    value = tirx.if_then_else(phase < bound, value, literal(0, value))
            if steps > packed[3]:
                value = tirx.if_then_else(c < packed[3], value, literal(0, value))
            return value

        def multiplied(p: Expr, kb: Expr, t: Expr, k: Expr) -> Expr:
            cb = a * row_blocks + b if len(axes) > 2 else b
            at = (p, kb // kr, cb, c, kb % kr, k)
            p = p * step % tiles.products
            plane = p % tall.n * wide.n + p // tall.n
            if not multiply.is_packed:
                return whole(p, transformed[plane, cb, t, c] * given.weight[at])
            width = multiply.width
            value = [transformed[plane, cb, t, c * width + i] for i in range(width)]
            added = negative_dot if multiply.is_negated else dot
            product = added(word(*value), word(given.weight[(*at, 0)]), multiply.name)
            return whole(p, product)

        product = self.reduction(
            (tiles.products, out_blocks, tiles.count, lanes),
            lambda p, kb, t, k: te.sum(multiplied(p, kb, t, k), axis=axes),
        )
        rows = te.compute(
            (out_blocks, tiles.count, tiles.mh, wide.n, lanes),
            lambda kb, t, i, q, k: choose(
                i,
                output_rows(
                    tall,
                    [
                        product[(q * tall.n + p) * back % tiles.products, kb, t, k]
                        for p in range(tall.n)
                    ],
                ),
            ),
            name="rows",
        )

        def total(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
            t = (n * tiles.rows + h // tiles.mh) * tiles.columns + x // tiles.mw
            values = [rows[kb, t, h % tiles.mh, q, k] for q in range(wide.n)]
            value = choose(x % tiles.mw, output_rows(wide, values))
            return divided(value, *tiles.integer) if integer else value

        return given.arguments(given.output(total))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(n_w * n_h, K/(kr*k), P*T*C/c, c, kr, k)``, ``k`` and ``c`` the machine's block.

        ``P`` are the phases. If there are fewer channels than a block has, ``c`` is their number.
        Integer types have ``(n_h * n_w, K/(kr*k), P*T*C/c, c/i, kr, k, i)`` with ``i`` in a dword,
        and opposite signs if products are subtracted.
        """
        kr, lanes = config.int("kr"), machine.channel_block
        groups = -(-machine.blocks(workload.out_channels) // kr)
        blocks, products = summed_blocks(workload, machine), tiling(workload, config).products
        channels = block_channels(workload, machine)
        multiply = transformed_multiply(workload, machine)
        if not multiply.is_packed:
            return (products, groups, blocks, channels, kr, lanes)
        size = multiply.width
        return (products, groups, blocks, channels // size, kr, lanes, size)

    def packed_type(self, workload: Conv2dWorkload) -> str:
        """16 bits for integer types."""
        types = workload.types
        return transformed_type(workload) if types.is_integer else types.weight

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """``U = G g G^T`` of an OIHW weight, computed in FP64 and rounded once.

        Raises :class:`WorkloadError` if integer sums may be too large for the tile.
        """
        tiles, shape = tiling(workload, config), self.packed_weight_shape(workload, machine, config)
        _, groups, blocks, steps, kr, lanes, *_ = shape
        sign = 1
        if workload.types.is_integer:
            check_sums(weight, workload, *tiles.integer)
            sign = -1 if multiply_of_shorts(machine).is_negated else 1
        planes, size = workload.kernel_d, (workload.kernel_h, workload.kernel_w)
        split = weight.reshape(*weight.shape[:2], planes, *size).swapaxes(1, 2)
        split = np.moveaxis(split_filter(split, workload), (3, 4), (1, 2))
        filters = split.reshape(len(weight), -1, *split.shape[4:])
        inputs = blocks // filters.shape[1] * prod(shape[3::3])
        padded = np.zeros((groups * kr * lanes, filters.shape[1], inputs, *filters.shape[3:]))
        padded[: workload.out_channels, :, : workload.in_channels] = filters
        result = np.empty(shape, self.packed_type(workload))
        order = np.arange(tiles.products).reshape(tiles.vertical.n, -1).T.ravel().argsort()
        order = order * pow(product_step(tiles, config, machine), -1, tiles.products)
        for p, taps in zip(order % tiles.products, filter_taps(tiles), strict=True):
            plane = np.tensordot(padded, sign * taps, 2)
            blocked = plane.reshape(groups, kr, lanes, blocks, steps, -1)
            result[p] = blocked.transpose(0, 3, 4, 1, 2, 5).reshape(shape[1:])
        return result

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Transformed input and products of one region on each core, or of all tiles."""
        tiles = tiling(workload, config)
        planes = sum(stride * size for _, stride, size in plane_strides(tiles, config, machine))
        regions = min(machine.cores, tiles.count // region_tiles(tiles, config))
        return tiles.products * planes * regions

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of the products; transforms use additions and constants."""
        tiles = tiling(workload, config)
        outputs = machine.blocks(workload.out_channels) * machine.channel_block
        inputs = summed_products(tiles, machine) * block_channels(workload, machine)
        return tiles.count * inputs * outputs

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """Rounding of the products' sums, amplified by the transforms of both axes.

        0 for integer types.
        """
        if workload.types.is_integer:
            return 0.0
        return tile_error(tiling(workload, config), workload.kernel_d * workload.in_channels)
