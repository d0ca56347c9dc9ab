"""Implicit GEMM on tensor cores: operands rounded to TF32 or FP16, accumulators in FP32.

It is the product of :mod:`tvmconv.algorithms.cuda.implicit_gemm` by ``mma.sync``. Activations stay
FP32 in memory and are rounded to nearest on their way to shared memory. Weights are rounded, and
arranged as fragments of the instruction, at build time.
"""

from __future__ import annotations

from math import prod
from typing import cast

import numpy as np

from tvmconv.algorithms.base import FloatArray, reduction_axes
from tvmconv.algorithms.cuda import fragments
from tvmconv.algorithms.cuda.base import CudaOperands
from tvmconv.algorithms.cuda.implicit_gemm import ImplicitGemm, pack_slices, padded_rows, slices_of
from tvmconv.algorithms.cuda.precision import PRECISIONS, Precision, largest_finite
from tvmconv.core.config import Config
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.cuda import CudaMachine
from tvmconv.tvm_api.types import Expr, Tensor

# root mean square of rounding to nearest, for values of any size between two powers of two
_ROUNDING = 0.39


def precision_of(config: Config) -> Precision:
    """The precision of a configuration."""
    return PRECISIONS[str(config["precision"])]


class ImplicitGemmMma(ImplicitGemm):
    """One product for each group, of tiles of ``m`` channels by ``p`` pixels, by ``mma.sync``.

    The expression reads the parameters of
    :class:`~tvmconv.algorithms.cuda.implicit_gemm.ImplicitGemm`, and ``precision``.
    """

    name = "implicit_gemm_mma"
    precisions = tuple(PRECISIONS)

    def precision(self, config: Config) -> str:
        """The precision of the operands."""
        return str(config["precision"])

    def compute(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> list[Tensor]:
        """Blocks ``columns`` (of dwords), ``conv2d`` and ``output``, which adds the parts."""
        from tvmconv.tvm_api import te

        w, slices, split = workload, slices_of(workload, config), config.int("split")
        precision = precision_of(config)
        packed = self.packed_weight_shape(w, machine, config)
        given = CudaOperands.of(w, packed, precision.dword)
        area = w.out_height * w.out_width
        pixels, tile = w.out_planes * area, config.int("p")
        padded = -(-pixels // tile) * tile
        parts, steps = slices.count // split, packed[2]

        value = self.gatherer(given, config)

        def gather(g: Expr, part: Expr, step: Expr, quad: Expr, p: Expr, half: Expr) -> Expr:
            dword = step * fragments.DWORDS + quad * 2 + half
            values = range(precision.values)
            return precision.dword_of([value(g, part, dword * len(values) + v, p) for v in values])

        shape = (w.groups, slices.count, steps, fragments.QUAD, padded, 2)
        columns = te.compute(shape, gather, name="columns")
        part, step, word = reduction_axes(part=parts, step=steps, word=fragments.DWORDS)

        def multiply(z: Expr, g: Expr, m: Expr, p: Expr) -> Expr:
            index = z * parts + part
            lane, register = fragments.of_weights(m % fragments.ROWS, word)
            weights = given.weight[g, index, step, m // fragments.ROWS, lane, register]
            factors = precision.product(weights, columns[g, index, step, word // 2, p, word % 2])
            return te.sum(factors, axis=[part, step, word])

        sums = self.reduction((split, w.groups, packed[3] * fragments.ROWS, padded), multiply)
        return given.arguments(self.finished_parts(given, sums, config))

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> tuple[int, ...]:
        """``(groups, slices, steps of a slice, M / 16, 32 lanes, 4 registers)``.

        A step is the reduction of one instruction: 8 dwords.
        """
        slices = slices_of(workload, config)
        tiles = padded_rows(workload, config) // fragments.ROWS
        steps = slices.size // (precision_of(config).values * fragments.DWORDS)
        outer = (workload.groups, slices.count, steps, tiles)
        return (*outer, fragments.LANES, fragments.WEIGHTS)

    def packed_weight_bytes(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> int:
        """Bytes of the dwords."""
        return 4 * prod(self.packed_weight_shape(workload, machine, config))

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> FloatArray:
        """Round an OIHW weight and arrange it in fragments, as dwords.

        Raises :class:`ConfigError` if a finite weight exceeds the precision's largest number.
        """
        precision = precision_of(config)
        if reason := precision.beyond(largest_finite(weight)):
            raise ConfigError(
                f"cannot pack weights of {workload}: {reason}. Expected smaller weights. "
                "Build with another precision."
            )
        # (groups, slices, values, M)
        rows = padded_rows(workload, config)
        plain = pack_slices(weight, workload, slices_of(workload, config), rows)
        shape = self.packed_weight_shape(workload, machine, config)
        groups, count, steps, tiles = shape[:4]
        dwords = precision.dwords(np.ascontiguousarray(plain.swapaxes(2, 3)))
        dwords = dwords.reshape(groups, count, tiles, fragments.ROWS, steps, fragments.DWORDS)
        row, dword = np.indices((fragments.ROWS, fragments.DWORDS))
        lane, register = fragments.of_weights(row, dword)
        packed = np.empty(shape, dwords.dtype)
        packed[..., lane, register] = dwords.transpose(0, 1, 4, 2, 3, 5)
        return cast("FloatArray", packed)

    def error_estimate(
        self, workload: Conv2dWorkload, machine: CudaMachine, config: Config
    ) -> float:
        """Rounding of both operands of every product, and of the FP32 accumulators.

        Errors of products are as random as the products. The largest error and the largest result
        are equally many deviations away, so that their ratio does not depend on the taps.
        """
        rounding = _ROUNDING * 2.0 ** -precision_of(config).significant_bits * 2.0**0.5
        return rounding + super().error_estimate(workload, machine, config)
