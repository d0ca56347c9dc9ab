"""im2col's GEMM by Strassen's algorithm: seven multiplications of submatrices instead of eight.

Pixels, blocks of input channels and blocks of output channels are each cut into an even and an odd
part: ``C = A B`` of 2x2 matrices. Winograd's form of Strassen's algorithm has four sums of input
quarters and seven sums of products. Sums of weights are made when the weights are packed. With two
``levels`` each product of parts is computed in the same way, with parts by numbers modulo four: 49
multiplications instead of 64.

Strassen, "Gaussian elimination is not optimal" (1969); Winograd's form: Higham, "Accuracy and
stability of numerical algorithms" (2002), section 23.1. MNN also computes 1x1 layers in this way.

1. ``halves``, ``sums``: seven combinations of the input's four quarters, for each tap. Two levels
   have these in ``parts``, and in ``sums`` seven combinations of each of them.
2. ``conv2d``: the products of sums, each of a part of the pixels and channels.
3. ``quarters``, ``output``: four quarters of the result from seven products, and the epilogue. Two
   levels have the inner quarters in ``inner``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only, reduction_axes
from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.algorithms.planes import plane_stride
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Index, Tensor

PRODUCTS = 7
# growth of direct convolution's error, measured (docs/notes/strassen.md)
GROWTH = 2.5
# places of the quarters of a matrix, in the order of their names
_QUARTERS = ((0, 0), (0, 1), (1, 0), (1, 1))
Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StrassenSplit:
    """How a workload is cut into parts.

    ``half`` are the pixels of each part of a region. ``levels`` is 1, or 2 if parts are cut again.
    """

    workload: Conv2dWorkload
    machine: Machine
    half: int
    levels: int = 1

    @classmethod
    def of(cls, workload: Conv2dWorkload, machine: Machine, config: Config) -> StrassenSplit:
        """The parts of a configuration."""
        return cls(workload, machine, config.int("half"), config.int("levels"))

    @property
    def ways(self) -> int:
        """Parts that pixels, and blocks of input and of output channels, are each cut into."""
        return 2**self.levels

    @property
    def products(self) -> int:
        """Number of products of parts."""
        return PRODUCTS**self.levels

    @property
    def taps(self) -> int:
        """Taps of the kernel."""
        return self.workload.kernel_h * self.workload.kernel_w

    @property
    def pixels(self) -> int:
        """Output pixels of one image."""
        return self.workload.out_height * self.workload.out_width

    @property
    def regions(self) -> int:
        """Regions of one image; the last region may exceed the image."""
        return -(-self.pixels // (self.ways * self.half))

    @property
    def in_blocks(self) -> int:
        """Blocks in a part of the input channels."""
        return self.machine.blocks(self.workload.in_channels) // self.ways

    @property
    def out_blocks(self) -> int:
        """Blocks in a part of the output channels."""
        return self.machine.blocks(self.workload.out_channels) // self.ways

    @property
    def depth(self) -> int:
        """Channel blocks times taps: vectors that one output value sums over."""
        return self.in_blocks * self.taps

    def planes(self, kr: int) -> tuple[tuple[int, int], ...]:
        """Values of a plane, and distance to the next plane, of sums and of a group's products."""
        area = self.half * self.machine.channel_block
        size = itemsize(self.workload.types.accumulator)
        return tuple(
            (count * area, plane_stride(self.products, count * area, self.machine, size))
            for count in (self.depth, kr)
        )


class Strassen(Algorithm):
    """Dense convolution with even numbers of channel blocks, and whole input blocks.

    Input sums would spread the contents of surplus lanes to channels that exist.

    The expression reads the parameters ``levels``, 1 or 2, and ``half``, the pixels of each part of
    a region. A register tile and a group of packed weights have ``kr`` output blocks.
    """

    name = "strassen"
    blocks = ("halves", "parts", "sums", "conv2d", "inner", "quarters", "output")
    stages = (
        ("input sums", ("halves", "parts", "sums")),
        ("products", ("conv2d",)),
        ("output sums", ("inner", "quarters", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers without even numbers of whole blocks, with groups, or on unmeasured CPUs."""
        w = workload
        if not machine.code.halves:
            return f"on {machine.isa} no measurement shows that Strassen products save time"
        if w.data_layout != "NCHWc":
            return "it reads channel-blocked input, not plain NCHW"
        if w.groups != 1:
            return f"{w.groups} groups leave too few channels for its products"
        counts = [machine.blocks(n) for n in (w.in_channels, w.out_channels)]
        if any(count % 2 for count in counts):
            return f"it needs even numbers of channel blocks, not {counts[0]} and {counts[1]}"
        if w.in_channels % machine.channel_block:
            return f"{w.in_channels} input channels leave surplus lanes, which sums would spread"
        if machine.family == "x86" and any((w.pad_top, w.pad_left, w.pad_bottom, w.pad_right)):
            return "it multiplies padding too, which direct convolution leaves out"
        return images_only(w)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and the module; groups of pixels are numbered across the batch."""
        from tvmconv.tvm_api import te

        w, kr, lanes = workload, config.int("kr"), machine.channel_block
        cut = StrassenSplit.of(w, machine, config)
        given = Operands.of(w, machine, self.packed_weight_shape(w, machine, config))
        sums = _input_sums(given, cut)
        d, c = reduction_axes(d=cut.depth, c=lanes)
        product = self.reduction(
            (cut.products, cut.out_blocks, w.batch * cut.regions * cut.half, lanes),
            lambda q, kb, t, k: te.sum(
                given.product(sums[q, d, t, c], given.weight[kb // kr, q, d, c, kb % kr, k]),
                axis=[d, c],
            ),
        )
        quarters = _output_sums(product, cut)
        groups, ways, inner = cut.half * cut.regions, cut.ways, cut.ways // 2

        def finish(n: Expr, kb: Expr, p: Expr, k: Expr) -> Expr:
            place = (p % inner, kb % inner, p % ways // inner, kb % ways // inner)
            total = quarters[(kb // ways, n * groups + p // ways, *place, k)]
            return given.finished(total, (n, kb, p // w.out_width, p % w.out_width, k))

        rows = te.compute(
            (w.batch, ways * cut.out_blocks, cut.pixels, lanes), finish, name="output"
        )
        return given.arguments(given.unflattened(rows))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(h*kr*k), 7, T*C/(h*c), c, kr, k)``, ``k`` and ``c`` the machine's block, ``h`` 2.

        With two levels ``h`` is 4, and there are 49 sums.
        """
        kr, lanes = config.int("kr"), machine.channel_block
        cut = StrassenSplit.of(workload, machine, config)
        return (-(-cut.out_blocks // kr), cut.products, cut.depth, lanes, kr, lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Sums of the quarters of an OIHW weight, computed in FP64 and rounded once."""
        cut = StrassenSplit.of(workload, machine, config)
        shape = self.packed_weight_shape(workload, machine, config)
        groups, _, _, lanes, kr, _ = shape
        outputs, inputs = weight.shape[:2]
        padded = np.zeros(
            (cut.ways * groups * kr * lanes, cut.ways * cut.in_blocks * lanes, cut.taps)
        )
        padded[:outputs, :inputs] = weight.reshape(outputs, inputs, cut.taps)
        pairs = [2] * cut.levels
        split = padded.reshape(groups, kr, *pairs, lanes, cut.in_blocks, *pairs, lanes, cut.taps)
        for level in range(cut.levels):
            # the outer axes of two parts of outputs and of inputs that remain, after earlier sums
            axes = (level + 2, cut.levels + 4)
            (b11, b21), (b12, b22) = np.moveaxis(split, axes, (0, 1))
            split = np.stack(weight_sums(b11, b12, b21, b22), axis=level)
        packed = split.reshape(cut.products, groups, kr, lanes, cut.in_blocks, lanes, cut.taps)
        packed = packed.transpose(1, 0, 4, 6, 5, 2, 3)
        return np.ascontiguousarray(packed, np.float32).reshape(shape)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Sums of the input and products of a group, for the region of each core."""
        cut = StrassenSplit.of(workload, machine, config)
        planes = sum(stride for _, stride in cut.planes(config.int("kr")))
        regions = min(machine.cores, workload.batch * cut.regions)
        return itemsize(workload.types.accumulator) * cut.products * planes * regions

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Seven of eight MACs, or 49 of 64, including pixels beyond the image."""
        cut = StrassenSplit.of(workload, machine, config)
        vectors = cut.products * cut.depth * cut.out_blocks * cut.half * cut.regions
        return workload.batch * vectors * machine.channel_block**2

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """The error of direct convolution, increased by the sums."""
        return GROWTH ** config.int("levels") * super().error_estimate(workload, machine, config)


def _input_sums(given: Operands, cut: StrassenSplit) -> Tensor:
    """``(sums, T*C/(h*c), pixels/h, c)``: the left factors, from the layer's input."""
    from tvmconv.algorithms.winograd.transforms import choose
    from tvmconv.tvm_api import te

    w, lanes = cut.workload, cut.machine.channel_block
    groups, taps, ways, inner = cut.half * cut.regions, cut.taps, cut.ways, cut.ways // 2
    lowest = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h - w.pad_top
    rightmost = (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w - w.pad_left

    def read(d: Expr, t: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
        p = t % groups * ways + i
        tests = [p < cut.pixels] if ways * groups > cut.pixels else []
        y = p // w.out_width * w.stride_h + d % taps // w.kernel_w * w.dilation_h - w.pad_top
        x = p % w.out_width * w.stride_w + d % w.kernel_w * w.dilation_w - w.pad_left
        value = given.data[t // groups, d // taps * ways + j, y, x, c]
        return zero_unless([*tests, *image_tests(w, y, x, lowest, rightmost)], value)

    count = w.batch * groups
    halves = te.compute((cut.depth, count, ways, ways, lanes), read, name="halves")

    def outer(q: Expr, d: Expr, t: Expr, i: Index, j: Index, c: Expr) -> Expr:
        places = [(i1 * inner + i, j1 * inner + j) for i1, j1 in _QUARTERS]
        return choose(q, left_factors([halves[(d, t, *place, c)] for place in places]))

    shape = (cut.products, cut.depth, count, lanes)
    if cut.levels == 1:
        return te.compute(shape, lambda q, d, t, c: outer(q, d, t, 0, 0, c), name="sums")
    parts = te.compute(
        (cut.depth, count, PRODUCTS, inner, inner, lanes),
        lambda d, t, q, i, j, c: outer(q, d, t, i, j, c),
        name="parts",
    )

    def both(q: Expr, d: Expr, t: Expr, c: Expr) -> Expr:
        part = [parts[(d, t, q // PRODUCTS, *place, c)] for place in _QUARTERS]
        return choose(q % PRODUCTS, left_factors(part))

    return te.compute(shape, both, name="sums")


def _output_sums(product: Tensor, cut: StrassenSplit) -> Tensor:
    """``(K/(h*k), pixels/h, h/2, h/2, 2, 2, k)``: the result by place in a group of pixels and
    blocks; the last axes are the quarter of the outer level.
    """
    from tvmconv.algorithms.winograd.transforms import choose
    from tvmconv.tvm_api import te

    _, blocks, count, lanes = (int(extent) for extent in product.shape)
    ways = cut.ways // 2
    inner = product
    if cut.levels == 2:
        inner = te.compute(
            (blocks, count, ways, PRODUCTS, ways, lanes),
            lambda kb, t, i, q, j, k: choose(
                i * ways + j,
                quarters_of([product[q * PRODUCTS + p, kb, t, k] for p in range(PRODUCTS)]),
            ),
            name="inner",
        )

    def outer(kb: Expr, t: Expr, i0: Expr, j0: Expr, i: Expr, j: Expr, k: Expr) -> Expr:
        def value(q: int) -> Expr:
            return product[q, kb, t, k] if cut.levels == 1 else inner[kb, t, i0, q, j0, k]

        return choose(i * 2 + j, quarters_of([value(q) for q in range(PRODUCTS)]))

    return te.compute((blocks, count, ways, ways, 2, 2, lanes), outer, name="quarters")


def left_factors(quarters: Sequence[Expr]) -> list[Expr]:
    """The left factors of the seven products."""
    a11, a12, a21, a22 = quarters
    s1 = a21 + a22
    s2 = s1 - a11
    return [a11, a12, a12 - s2, a22, s1, s2, a11 - a21]


def weight_sums(b11: Array, b12: Array, b21: Array, b22: Array) -> list[Array]:
    """The right factors of the seven products."""
    t1 = b12 - b11
    t2 = b22 - t1
    return [b11, b21, b22, t2 - b21, t1, t2, b22 - b12]


def quarters_of(p: Sequence[Expr]) -> list[Expr]:
    """The four quarters of the result; shared terms are written identically."""
    u2 = p[0] + p[5]
    u3, u4 = u2 + p[6], u2 + p[4]
    return [p[0] + p[1], u4 + p[2], u3 - p[3], u3 + p[4]]
