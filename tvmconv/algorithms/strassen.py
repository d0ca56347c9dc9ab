"""im2col's matrix product with seven multiplications of halves in place of eight.

Pixels, blocks of input channels and blocks of output channels are each cut into two halves, those
with even numbers and those with odd ones: ``C = A B`` of 2x2 matrices, computed by Winograd's form
of Strassen's algorithm with four sums of input quarters and seven of products; the sums of the
weights are made when they are packed.

Strassen, "Gaussian elimination is not optimal" (1969); Winograd's form: Higham, "Accuracy and
stability of numerical algorithms" (2002), section 23.1. MNN computes 1x1 layers so, too.

1. ``halves``, ``sums``: seven combinations of the input's four quarters, for each tap.
2. ``conv2d``: seven products of a quarter of the pixels and channels each.
3. ``quarters``, ``output``: four quarters of the result from the seven, and the epilogue.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray, images_only
from tvmconv.algorithms.direct import Direct
from tvmconv.algorithms.operands import Operands
from tvmconv.algorithms.padding import image_tests, zero_unless
from tvmconv.core.config import Config
from tvmconv.core.datatypes import itemsize
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

PRODUCTS = 7
# growth of direct convolution's error, measured (docs/strassen.md)
_GROWTH = 2.5


@dataclass(frozen=True)
class Halves:
    """How a workload is cut.

    Parameters
    ----------
    workload, machine
        What is computed, and where.
    half
        Pairs of pixels of a region.
    """

    workload: Conv2dWorkload
    machine: Machine
    half: int

    @property
    def taps(self) -> int:
        """Of the kernel."""
        return self.workload.kernel_h * self.workload.kernel_w

    @property
    def pixels(self) -> int:
        """Output pixels of one image."""
        return self.workload.out_height * self.workload.out_width

    @property
    def regions(self) -> int:
        """Regions of one image; the last one may have pixels that do not exist."""
        return -(-self.pixels // (2 * self.half))

    @property
    def in_blocks(self) -> int:
        """Blocks in half of the input channels."""
        return self.machine.blocks(self.workload.in_channels) // 2

    @property
    def out_blocks(self) -> int:
        """Blocks in half of the output channels."""
        return self.machine.blocks(self.workload.out_channels) // 2

    @property
    def depth(self) -> int:
        """Channel blocks times taps: vectors that one output value sums over."""
        return self.in_blocks * self.taps


class Strassen(Algorithm):
    """Dense convolution of even numbers of channel blocks, those of the input whole ones.

    Sums would spread what surplus lanes of the input hold over channels that exist.

    Knobs read by the expression: ``half``, the pairs of pixels of a region; ``kr``, the output
    blocks of a register tile, by which weights are packed.
    """

    name = "strassen"
    blocks = ("halves", "sums", "conv2d", "quarters", "output")
    stages = (
        ("input sums", ("halves", "sums")),
        ("products", ("conv2d",)),
        ("output sums", ("quarters", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Halves are whole blocks; groups and depthwise layers have too few channels."""
        w = workload
        if not machine.code.halves:
            return f"on {machine.isa} nobody measured whether products of halves pay"
        if w.data_layout != "NCHWc":
            return "it reads channel-blocked input, not plain NCHW"
        if w.groups != 1:
            return f"{w.groups} groups leave too few channels for its products"
        counts = [machine.blocks(n) for n in (w.in_channels, w.out_channels)]
        if any(count % 2 for count in counts):
            return f"{counts[0]} blocks of input and {counts[1]} of output channels have no halves"
        if w.in_channels % machine.channel_block:
            return f"{w.in_channels} input channels leave lanes of a block that no sum may hold"
        return images_only(w)

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and the module; pairs of pixels are numbered across the batch."""
        from tvmconv.algorithms.winograd_rows import choose
        from tvmconv.tvm_api import te

        w, kr, lanes = workload, config.int("kr"), machine.channel_block
        cut = Halves(w, machine, config.int("half"))
        pairs, taps = cut.half * cut.regions, cut.taps
        given = Operands.of(w, machine, self.packed_weight_shape(w, machine, config))
        lowest = (w.out_height - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h - w.pad_top
        rightmost = (w.out_width - 1) * w.stride_w + (w.kernel_w - 1) * w.dilation_w - w.pad_left

        def read(d: Expr, t: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
            p = t % pairs * 2 + i
            tests = [p < cut.pixels] if 2 * pairs > cut.pixels else []
            y = p // w.out_width * w.stride_h + d % taps // w.kernel_w * w.dilation_h - w.pad_top
            x = p % w.out_width * w.stride_w + d % w.kernel_w * w.dilation_w - w.pad_left
            value = given.data[t // pairs, d // taps * 2 + j, y, x, c]
            return zero_unless([*tests, *image_tests(w, y, x, lowest, rightmost)], value)

        count = w.batch * pairs
        halves = te.compute((cut.depth, count, 2, 2, lanes), read, name="halves")
        sums = te.compute(
            (PRODUCTS, cut.depth, count, lanes),
            lambda q, d, t, c: choose(
                q, _input_sums([halves[d, t, i, j, c] for i in range(2) for j in range(2)])
            ),
            name="sums",
        )
        d = te.reduce_axis((0, cut.depth), "d")
        c = te.reduce_axis((0, lanes), "c")
        product = self.reduction(
            (PRODUCTS, cut.out_blocks, count, lanes),
            lambda q, kb, t, k: te.sum(
                given.product(sums[q, d, t, c], given.weight[kb // kr, q, d, c, kb % kr, k]),
                axis=[d, c],
            ),
        )
        quarters = te.compute(
            (cut.out_blocks, count, 2, 2, lanes),
            lambda kb, t, i, j, k: choose(
                i * 2 + j, _output_sums([product[q, kb, t, k] for q in range(PRODUCTS)])
            ),
            name="quarters",
        )

        def finish(n: Expr, kb: Expr, p: Expr, k: Expr) -> Expr:
            total = quarters[kb // 2, n * pairs + p // 2, p % 2, kb % 2, k]
            return given.finished(total, (n, kb, p // w.out_width, p % w.out_width, k))

        rows = te.compute((w.batch, 2 * cut.out_blocks, cut.pixels, lanes), finish, name="output")
        return given.arguments(given.unflattened(rows))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(2*kr*k), 7, T*C/(2*c), c, kr, k)``, ``k`` and ``c`` the machine's block."""
        kr, lanes = config.int("kr"), machine.channel_block
        cut = Halves(workload, machine, config.int("half"))
        return (-(-cut.out_blocks // kr), PRODUCTS, cut.depth, lanes, kr, lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Sums of the quarters of an OIHW weight, made in float64 and rounded once."""
        cut = Halves(workload, machine, config.int("half"))
        shape = self.packed_weight_shape(workload, machine, config)
        groups, _, _, lanes, kr, _ = shape
        outputs, inputs = weight.shape[:2]
        padded = np.zeros((2 * groups * kr * lanes, 2 * cut.in_blocks * lanes, cut.taps))
        padded[:outputs, :inputs] = weight.reshape(outputs, inputs, cut.taps)
        split = padded.reshape(groups, kr, 2, lanes, cut.in_blocks, 2, lanes, cut.taps)
        # half of the outputs, half of the inputs, (group, block, lane, input block, channel, tap)
        (b11, b21), (b12, b22) = split.transpose(2, 5, 0, 1, 3, 4, 6, 7)
        t1 = b12 - b11
        t2 = b22 - t1
        factors = np.stack([b11, b21, b22, t2 - b21, t1, t2, b22 - b12])
        packed = factors.transpose(1, 0, 4, 6, 5, 2, 3)
        return np.ascontiguousarray(packed, np.float32).reshape(shape)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Of the region that each core computes: sums of the input, products of a group."""
        cut = Halves(workload, machine, config.int("half"))
        planes = PRODUCTS * (cut.depth + config.int("kr")) * cut.half * machine.channel_block
        regions = min(machine.cores, workload.batch * cut.regions)
        return itemsize(workload.types.accumulator) * planes * regions

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Seven of eight, with those of pixels that do not exist."""
        cut = Halves(workload, machine, config.int("half"))
        vectors = PRODUCTS * cut.depth * cut.out_blocks * cut.half * cut.regions
        return workload.batch * vectors * machine.channel_block**2

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """That of direct convolution, grown by the sums."""
        return _GROWTH * Direct().error_estimate(workload, machine, config)


def _input_sums(quarters: Sequence[Expr]) -> list[Expr]:
    """The left factors of the seven products."""
    a11, a12, a21, a22 = quarters
    s1 = a21 + a22
    s2 = s1 - a11
    return [a11, a12, a12 - s2, a22, s1, s2, a11 - a21]


def _output_sums(p: Sequence[Expr]) -> list[Expr]:
    """The four quarters of the result; what they share is written identically."""
    u2 = p[0] + p[5]
    u3, u4 = u2 + p[6], u2 + p[4]
    return [p[0] + p[1], u4 + p[2], u3 - p[3], u3 + p[4]]
