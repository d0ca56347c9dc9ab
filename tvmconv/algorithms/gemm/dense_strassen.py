"""Fully connected layers by Strassen's algorithm: seven products of submatrices instead of eight.

Rows, inputs and outputs are each cut in two: rows into even and odd ones, inputs and outputs in the
middle. The sums are the sums of Winograd's form, see :mod:`tvmconv.algorithms.gemm.strassen`, which
cuts images in the same way.

1. ``halves``, ``sums``: seven combinations of the data's four quarters.
2. ``dense``: their products with the packed sums of the weight's quarters.
3. ``quarters``, ``output``: four quarters of the result, and the epilogue.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from tvmconv.algorithms.base import Algorithm, FloatArray
from tvmconv.algorithms.gemm.strassen import (
    GROWTH,
    PRODUCTS,
    left_factors,
    quarters_of,
    weight_sums,
)
from tvmconv.algorithms.operands import input_shape, output_shape
from tvmconv.core.config import Config
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor


@dataclass(frozen=True)
class DenseHalves:
    """How a fully connected layer is cut.

    ``half`` are the pairs of rows of a region. A panel of outputs has ``vectors`` vectors of
    ``lanes`` values.
    """

    workload: Conv2dWorkload
    half: int
    vectors: int
    lanes: int

    @classmethod
    def of(cls, workload: Conv2dWorkload, machine: Machine, config: Config) -> DenseHalves:
        """The parts of a configuration."""
        return cls(workload, config.int("half"), config.int("width"), machine.lanes)

    @property
    def pairs(self) -> int:
        """Pairs of rows; the last pair may have a single row."""
        return -(-self.workload.batch // 2)

    @property
    def regions(self) -> int:
        """Regions of rows; the last region may exceed the rows."""
        return -(-self.pairs // self.half)

    @property
    def depth(self) -> int:
        """Inputs of a part."""
        return self.workload.in_channels // 2

    @property
    def panels(self) -> int:
        """Panels in a part of the outputs."""
        return self.workload.out_channels // (2 * self.vectors * self.lanes)


class DenseStrassen(Algorithm):
    """Fully connected layers of several rows, and even numbers of whole vectors.

    The expression reads the parameters ``half``, the pairs of rows of a region, and ``width``, the
    vectors of outputs of a register tile and of a block of packed weights.
    """

    name = "dense_strassen"
    matrices = True
    blocks = ("halves", "sums", "dense", "quarters", "output")
    stages = (
        ("input sums", ("halves", "sums")),
        ("products", ("dense",)),
        ("output sums", ("quarters", "output")),
    )
    sums_products = False

    def unsuited(self, workload: Conv2dWorkload, machine: Machine) -> str | None:
        """Layers of few rows, without even numbers of whole vectors, or on unmeasured CPUs."""
        w, lanes = workload, machine.lanes
        if machine.family != "x86":
            return f"on {machine.isa} no measurement shows that Strassen products save time"
        if w.batch < 2:
            return "a single row has no pair"
        for name, count in (("inputs", w.in_channels), ("outputs", w.out_channels)):
            if count % (2 * lanes):
                return f"it needs even numbers of whole vectors of {lanes}, not {count} {name}"
        return None

    def compute(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> list[Tensor]:
        """See the base class and the module."""
        from tvmconv.algorithms.winograd.transforms import choose
        from tvmconv.operators.epilogue import apply_epilogue
        from tvmconv.tvm_api import te, tirx

        w, cut = workload, DenseHalves.of(workload, machine, config)
        written, lanes, pairs = output_shape(w, machine), machine.lanes, cut.half * cut.regions
        shapes = {
            "data": input_shape(w, machine),
            "weight": self.packed_weight_shape(w, machine, config),
        }
        if w.has("bias"):
            shapes["bias"] = written[1:]
        if w.has("add"):
            shapes["residual"] = written
        given = [te.placeholder(shape, "float32", name=name) for name, shape in shapes.items()]
        data, weight, *rest = given
        bias = rest.pop(0) if w.has("bias") else None
        residual = rest.pop(0) if w.has("add") else None

        def read(t: Expr, k: Expr, i: Expr, j: Expr, c: Expr) -> Expr:
            row = 2 * t + i
            # rows beyond the last one repeat it
            row = tirx.min(row, w.batch - 1) if 2 * pairs > w.batch else row
            return data[row, j * cut.depth + k * lanes + c]

        halves = te.compute((pairs, cut.depth // lanes, 2, 2, lanes), read, name="halves")
        sums = te.compute(
            (PRODUCTS, pairs, cut.depth // lanes, lanes),
            lambda q, t, k, c: choose(
                q, left_factors([halves[t, k, i, j, c] for i in range(2) for j in range(2)])
            ),
            name="sums",
        )
        k = te.reduce_axis((0, cut.depth), "k")
        product = te.compute(
            (PRODUCTS, pairs, cut.panels, cut.vectors, lanes),
            lambda q, t, b, v, c: te.sum(
                sums[q, t, k // lanes, k % lanes] * weight[b, q, k, v * lanes + c], axis=k
            ),
            name="dense",
        )
        quarters = te.compute(
            (pairs, cut.panels * cut.vectors, 2, 2, lanes),
            lambda t, v, i, j, c: choose(
                i * 2 + j,
                quarters_of(
                    [product[q, t, v // cut.vectors, v % cut.vectors, c] for q in range(PRODUCTS)]
                ),
            ),
            name="quarters",
        )
        width = w.out_channels // 2

        def finished(m: Expr, j: Expr, v: Expr, c: Expr) -> Expr:
            n = j * width + v * lanes + c
            return apply_epilogue(
                quarters[m // 2, v, m % 2, j, c],
                w.epilogue,
                bias[n] if bias is not None else None,
                residual[m, n] if residual is not None else None,
            )

        rows = te.compute((w.batch, 2, width // lanes, lanes), finished, name="output")
        flat = te.compute(
            written,
            lambda m, n: rows[m, n // width, n % width // lanes, n % lanes],
            name="unflatten",
        )
        return [*given, flat]

    def packed_weight_shape(
        self, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> tuple[int, ...]:
        """``(K/(2n), 7, C/2, n)``; ``n`` is ``width`` times the lanes."""
        cut = DenseHalves.of(workload, machine, config)
        return (cut.panels, PRODUCTS, cut.depth, cut.vectors * cut.lanes)

    def pack_weight(
        self, weight: FloatArray, workload: Conv2dWorkload, machine: Machine, config: Config
    ) -> FloatArray:
        """Sums of the quarters of a ``(K, C, 1, 1)`` weight, computed in FP64 and rounded once."""
        panels, _, depth, width = self.packed_weight_shape(workload, machine, config)
        matrix = weight.reshape(workload.out_channels, workload.in_channels).T.astype(np.float64)
        parts = matrix.reshape(2, depth, 2, panels, width).transpose(0, 2, 3, 1, 4)
        (b11, b12), (b21, b22) = parts
        packed = np.stack(weight_sums(b11, b12, b21, b22), axis=1)
        return np.ascontiguousarray(packed, np.float32)

    def workspace_bytes(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Sums of the data and products of a panel, for the region of each core."""
        cut = DenseHalves.of(workload, machine, config)
        values = PRODUCTS * cut.half * (cut.depth + cut.vectors * cut.lanes)
        return 4 * values * min(machine.cores, cut.regions)

    def multiplies(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> int:
        """Seven of eight MACs, including rows beyond the last one."""
        cut = DenseHalves.of(workload, machine, config)
        return cut.regions * cut.half * prod(self.packed_weight_shape(workload, machine, config))

    def error_estimate(self, workload: Conv2dWorkload, machine: Machine, config: Config) -> float:
        """The error of a plain sum, increased by the sums of quarters."""
        return GROWTH * super().error_estimate(workload, machine, config)
