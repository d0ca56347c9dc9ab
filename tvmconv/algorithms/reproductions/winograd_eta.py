"""Winograd convolution with the packed layouts and the product of the paper.

Wang et al., "Optimizing Winograd-Based Fast Convolution Algorithm on Phytium Multi-Core CPUs"
(2020), Algorithm 2. The lanes of a vector are S of the ``delta**2`` products ("along eta").
Operands are written in the order in which they are read (see ``winograd_packing``).

1. Filters are transformed into G when the model is built, in FP64.
2. ``columns``, ``tile``, ``transform``: ``d^T = Q^T (Q^T x)^T``, written as D.
3. ``conv2d``, ``sums``: S matrix products at once. They sum C_l1 channels in registers, and blocks
   of channels in U.
4. ``gather``, ``rows``, ``output``: ``z = A^T (A^T u^T)^T``, the epilogue, existing pixels only.

Not in the paper: activations are channel-blocked, so that transforms have channels in lanes.
Vectors along eta are transposed in registers before and after.
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only
from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.algorithms.reproductions.winograd_packing import TAPS, Packing, paper_transforms
from tvmconv.algorithms.winograd.matrices import rounding_error
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# growth of the error by both transforms with the paper's points; fitted, docs/notes/winograd.md
_AMPLIFICATION = {4: 21.0, 6: 36.0}


class WinogradEta(Algorithm):
    """F(4x4, 3x3) and F(6x6, 3x3) with the paper's matrices; parameters as of :class:`Packing`."""

    name = "winograd_eta"
    blocks = ("columns", "tile", "transform", "conv2d", "sums", "gather", "rows", "output")
    stages = (
        ("input transform", ("columns", "tile", "transform")),
        ("products", ("conv2d", "sums")),
        ("output transform", ("gather", "rows", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers other than 3x3 kernels at stride 1."""
        w = workload
        if w.is_volume:
            return images_only(w)
        if (w.kernel_h, w.kernel_w) != (TAPS, TAPS):
            return f"the paper has 3x3 kernels, not {w.kernel_h}x{w.kernel_w}"
        if (w.stride_h, w.stride_w) != (1, 1):
            return f"its tiles overlap only at stride 1, not {w.stride_h}x{w.stride_w}"
        if (w.dilation_h, w.dilation_w) != (1, 1):
            return f"it needs dense kernels, not dilation {w.dilation_h}x{w.dilation_w}"
        if w.groups != 1:
            return f"the paper has no groups; this layer has {w.groups}"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and the module."""
        pack = Packing(workload, machine, config)
        given = Operands.of(workload, machine, pack.weight_shape())
        sums = _product(self, pack, given.weight, _input(pack, given.data))
        return given.arguments(_output(pack, sums, given))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(eta/S, C/C_l1, K/K_r, C_l1, K_r, S)``: G."""
        return Packing(workload, machine, config).weight_shape()

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """``g^T = P (P f)^T`` of an OIHW weight, computed in float64 and rounded once."""
        eta, blocks, groups, cl1, kr, s = self.packed_weight_shape(workload, machine, config)
        matrix = paper_transforms(config.int("m")).filter_matrix()
        once = np.einsum("pu,kcuv->kcvp", matrix, weight.astype(np.float64))
        transposed = np.einsum("qv,kcvp->kcqp", matrix, once)
        flat = transposed.reshape(*weight.shape[:2], -1)
        padded = np.zeros((groups * kr, blocks * cl1, eta * s), np.float32)
        padded[: flat.shape[0], : flat.shape[1], : flat.shape[2]] = flat
        split = padded.reshape(groups, kr, blocks, cl1, eta, s)
        return np.ascontiguousarray(split.transpose(4, 2, 0, 3, 1, 5))

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """D and U as a whole, because a stage starts after the previous stage ends."""
        pack = Packing(workload, machine, config)
        values = int(np.prod(pack.input_shape()) + np.prod(pack.output_shape()))
        return itemsize(workload.types.accumulator) * values

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Multiplications of the product, including the padding of every axis."""
        pack = Packing(workload, machine, config)
        return int(np.prod(pack.output_shape())) * pack.channels * config.int("cl1")

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """As :class:`~tvmconv.algorithms.winograd.winograd.Winograd`, with the paper's points."""
        return rounding_error(_AMPLIFICATION[config.int("m")], workload.in_channels)


def _input(pack: Packing, data: Tensor) -> Tensor:
    """D of the input."""
    from tvmconv.algorithms.winograd.transforms import choose, input_rows
    from tvmconv.tvm_api import te, tirx

    matrices = paper_transforms(pack.config.int("m"))
    delta, lanes = pack.delta, pack.machine.channel_block
    cl1, br, s = (pack.config.int(name) for name in ("cl1", "br", "s"))
    here = (pack.channels * cl1 // lanes, *pack.positions, br)

    def column(cb: Expr, q: Expr, mu: Expr, bf: Expr, p: Expr, j: Expr, c: Expr) -> Expr:
        values = [_read(data, pack, cb, (q, mu, bf), (i, j), c) for i in range(delta)]
        return choose(p, input_rows(matrices, values))

    columns = te.compute((*here, delta, delta, lanes), column, name="columns")
    # rows of zeros fill the last vector: uninitialized memory may be denormal, and slow
    filled = -(-pack.eta * s // delta)
    zeros = [tirx.const(0.0, "float32")] * (filled - delta)

    def transposed(cb: Expr, q: Expr, mu: Expr, bf: Expr, p: Expr, g: Expr, c: Expr) -> Expr:
        values = [columns[cb, q, mu, bf, g, j, c] for j in range(delta)]
        return choose(p, [*input_rows(matrices, values), *zeros])

    tile = te.compute((*here, filled, delta, lanes), transposed, name="tile")

    def move(e: Expr, cc: Expr, q: Expr, mu: Expr, c: Expr, bf: Expr, i: Expr) -> Expr:
        channel, eta = cc * cl1 + c, e * s + i
        return tile[channel // lanes, q, mu, bf, eta // delta, eta % delta, channel % lanes]

    return te.compute(pack.input_shape(), move, name="transform")


def _read(
    data: Tensor,
    pack: Packing,
    cb: Expr,
    place: tuple[Expr, Expr, Expr],
    pixel: tuple[int, Expr],
    c: Expr,
) -> Expr:
    """An input value, or zero in the padding, in a tile's surplus and in a padded block."""
    from tvmconv.tvm_api import tirx

    w, lanes, m = pack.workload, pack.machine.channel_block, pack.config.int("m")
    (rows, columns), (i, j) = pack.tiles, pixel
    n, t, tests = pack.sample_of(*place)
    y, x = t // columns * m + i - w.pad_top, t % columns * m + j - w.pad_left
    present = pack.machine.blocks(w.in_channels)
    if present * lanes % pack.config.int("cl1"):
        tests.append(cb < present)
    lowest = (rows - 1) * m + pack.delta - 1 - w.pad_top
    rightmost = (columns - 1) * m + pack.delta - 1 - w.pad_left
    tests += image_tests(w, y, x, lowest, rightmost)
    if w.data_layout == "NCHW":
        # lanes after the last channel repeat it: their weights are zero
        channel = cb * lanes + c
        value = data[n, tirx.min(channel, w.in_channels - 1), y, x]
    else:
        value = data[n, cb, y, x, c]
    return zero_unless(tests, value)


def _product(algorithm: Algorithm, pack: Packing, weight: Tensor, packed: Tensor) -> Tensor:
    """U of D and G."""
    from tvmconv.tvm_api import te

    cl1, br, kr, s = (pack.config.int(knob) for knob in ("cl1", "br", "kr", "s"))
    cf = te.reduce_axis((0, cl1), "cf")
    # equation 11
    product = algorithm.reduction(
        (pack.eta, pack.channels, pack.groups, *pack.positions, br, kr, s),
        lambda e, cc, kg, q, mu, bf, k, i: te.sum(
            weight[e, cc, kg, cf, k, i] * packed[e, cc, q, mu, cf, bf, i], axis=cf
        ),
    )
    cs = te.reduce_axis((0, pack.channels), "cs")

    def add(*index: Expr) -> Expr:
        *outer, bf, k, i = index
        e, kg, q, mu = outer if pack.config.int("outer_eta") else (outer[3], *outer[:3])
        return te.sum(product[e, cs, kg, q, mu, bf, k, i], axis=cs)

    return te.compute(pack.output_shape(), add, name="sums")


def _output(pack: Packing, sums: Tensor, given: Operands) -> Tensor:
    """The convolution's output of U."""
    from tvmconv.algorithms.winograd.transforms import choose, output_rows
    from tvmconv.tvm_api import te

    w, lanes, delta = pack.workload, pack.machine.channel_block, pack.delta
    m, kr, s = (pack.config.int(knob) for knob in ("m", "kr", "s"))
    matrices, (tile_rows, tile_columns) = paper_transforms(m), pack.tiles
    blocks, count = pack.machine.blocks(w.out_channels), tile_rows * tile_columns

    def fetch(kb: Expr, n: Expr, t: Expr, e: Expr, i: Expr, k: Expr) -> Expr:
        (q, mu, bf), channel = pack.place(n, t), kb * lanes + k
        return sums[(*pack.output_place(e, channel // kr, q, mu), bf, channel % kr, i)]

    gather = te.compute((blocks, w.batch, count, pack.eta, s, lanes), fetch, name="gather")

    def row(kb: Expr, n: Expr, t: Expr, i: Expr, g: Expr, k: Expr) -> Expr:
        places = [p * delta + g for p in range(delta)]
        values = [gather[kb, n, t, eta // s, eta % s, k] for eta in places]
        return choose(i, output_rows(matrices, values))

    rows = te.compute((blocks, w.batch, count, m, delta, lanes), row, name="rows")

    def total(n: Expr, kb: Expr, h: Expr, x: Expr, k: Expr) -> Expr:
        t = h // m * tile_columns + x // m
        # equation 10: the first pass went along the rows of the tile, not of its transpose
        values = [rows[kb, n, t, x % m, g, k] for g in range(delta)]
        return choose(h % m, output_rows(matrices, values))

    return given.output(total)
