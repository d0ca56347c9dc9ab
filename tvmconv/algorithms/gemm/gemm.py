"""The packed GEMM of Goto and van de Geijn as a tensor expression.

As in FTEngine (Tan 2023, sections 4.2.2 and 4.2.3), both operands are copied into slivers in the
order in which the register tile reads them. Row i of A and column j of B are at

    ``A[(i / mr) mr kc + k mr + i mod mr]`` and ``B[(j / nr) nr kc + k nr + j mod nr]``

within a block of ``kc`` inner steps. Partial slivers are filled with zeros. The paper is
column-major, which exchanges the operands. Here C is row-major, so that vectors run along n.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.padding import zero_unless
from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32, DataTypes, itemsize
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.machines.multiply import Multiply, multiply_of_product
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# data types of the expression and its schedules; sums of integers are exact modulo 2**32
TYPES = (
    FLOAT32,
    *(
        DataTypes(data, weight, "int32", "int32")
        for data, weight in (("uint8", "int8"), ("int8", "int8"), ("int16", "int16"))
    ),
)


def compute(workload: GemmWorkload, machine: Machine, config: Config) -> list[Tensor]:
    """Arguments and result of ``C = alpha A B + beta C``.

    Blocks: ``pack_a``, ``pack_b`` (unless B is packed), ``product``, the sums over one block of
    ``kc`` steps, and ``output``, which adds them in C.
    """
    from tvmconv.tvm_api import te

    m, n, types = workload.m, workload.n, workload.types
    mr, nr, kc, lanes = config.int("mr"), config.int("nr"), config.int("kc"), machine.lanes
    multiply = multiply_of_product(types, machine)
    parts = -(-reduction_steps(workload, machine) // kc)
    rows, columns = -(-m // mr), -(-n // nr)
    a = te.placeholder((m, workload.k), types.data, name="a")
    prepacked = bool(config["prepacked"])
    panels, kind = (parts, columns, kc, nr), packed_type(multiply)
    b = (
        te.placeholder(panels, kind, name="b")
        if prepacked
        else te.placeholder((workload.k, n), types.weight, name="b")
    )
    step = _Step(multiply, workload.k, parts * kc)

    def sliver_a(p: Expr, s: Expr, x: Expr, i: Expr) -> Expr:
        row = s * mr + i
        return step.packed(
            lambda k: a[row, k], p * kc + x, (row, m, rows * mr), itemsize(types.data)
        )

    def sliver_b(p: Expr, s: Expr, x: Expr, j: Expr) -> Expr:
        column = s * nr + j
        return step.packed(lambda k: b[k, column], p * kc + x, (column, n, columns * nr))

    packed_a = te.compute((parts, rows, kc, mr), sliver_a, name="pack_a")
    packed_b = b if prepacked else te.compute(panels, sliver_b, name="pack_b")
    x = te.reduce_axis((0, kc), "x")
    vectors = nr // lanes

    def multiplied(p: Expr, i: Expr, v: Expr, j: Expr) -> Expr:
        right = packed_b[p, v // vectors, x, v % vectors * lanes + j]
        left = packed_a[p, i // mr, x, i % mr]
        return te.sum(step.product(left, right, types.accumulator), axis=[x])

    product = te.compute((parts, rows * mr, columns * vectors, lanes), multiplied, name="product")
    arguments = [a, b]
    if workload.beta:
        arguments.append(te.placeholder((m, n), types.output, name="c"))
    return [*arguments, _output(workload, lanes, product, *arguments[2:])]


def _output(workload: GemmWorkload, lanes: int, product: Tensor, *c: Tensor) -> Tensor:
    """The sums of all parts, with alpha, beta and C."""
    from tvmconv.tvm_api import te, tirx

    p = te.reduce_axis((0, int(product.shape[0])), "p")
    accumulator = workload.types.accumulator
    factors = (workload.alpha, workload.beta, 0)
    alpha, beta, zero = (tirx.const(f, accumulator) for f in factors)

    def finish(i: Expr, j: Expr) -> Expr:
        value = product[p, i, j // lanes, j % lanes]
        value = value if workload.alpha == 1 else value * alpha
        for matrix in c:
            value = value + tirx.if_then_else(p == 0, beta * matrix[i, j], zero)
        return te.sum(value, axis=[p])

    shape, attrs = (workload.m, workload.n), {"tvmconv.algorithm": "gemm"}
    return te.compute(shape, finish, name="output", attrs=attrs)


def reduction_steps(workload: GemmWorkload, machine: Machine) -> int:
    """Inner steps of a product: values of k for FP32, else dwords of them."""
    return -(-workload.k // multiply_of_product(workload.types, machine).width)


def packed_type(multiply: Multiply) -> str:
    """Type of the packed operands: dwords, or the factors if a step is one product."""
    return "int32" if multiply.width > 1 else multiply.element


@dataclass(frozen=True)
class _Step:
    """How operands of one inner step are packed and multiplied.

    ``k`` values of the reduction are in ``steps`` steps, the last ones filled with zeros.
    """

    multiply: Multiply
    k: int
    steps: int

    def packed(
        self,
        element: Callable[[Expr], Expr],
        step: Expr,
        limit: tuple[Expr, int, int],
        adjacent: int = 0,
    ) -> Expr:
        """The packed values of a step; ``limit`` is the index of a row or column, and its extents.

        ``adjacent`` is the bytes of a value, if values of ``k`` are neighbors in memory.
        """
        from tvmconv.operators.products import pair, word

        width, size = self.multiply.width, itemsize(self.multiply.element)
        index, extent, filled = limit
        tests = [index < extent] if filled > extent else []
        first = step * width
        if width > 1 and not (adjacent and self.k % width == 0):
            return zero_unless(tests, self._joined(element, first))
        tests += [first < self.k] if self.steps * width > self.k else []
        value = element(first)
        if width == 1:
            value = value.astype(self.multiply.element)
        else:
            value = pair(value) if adjacent < size else word(value)
        return zero_unless(tests, value)

    def _joined(self, element: Callable[[Expr], Expr], first: Expr) -> Expr:
        """The dword of values that are not neighbors, by shifts."""
        from tvmconv.tvm_api import tirx

        width, bits = self.multiply.width, 8 * itemsize(self.multiply.element)
        total = tirx.const(0, "int32")
        for i in range(width):
            beyond = [first + i < self.k] if self.steps * width > self.k else []
            value = zero_unless(beyond, element(first + i)).astype("int32")
            total = total | ((value & (2**bits - 1)) << (bits * i))
        return total

    def product(self, left: Expr, right: Expr, accumulator: str) -> Expr:
        """The product of packed operands, in the accumulator's type."""
        from tvmconv.operators.products import dot

        if self.multiply.width > 1:
            return dot(left, right, self.multiply.name)
        return left.astype(accumulator) * right.astype(accumulator)


def pack_b(
    matrix: FloatArray, config: Config, workload: GemmWorkload, machine: Machine
) -> FloatArray:
    """``(k, n)`` to ``(k / kc, n / nr, kc, nr)``, the last block and sliver filled with zeros."""
    multiply = multiply_of_product(workload.types, machine)
    kc, nr, width = config.int("kc"), config.int("nr"), multiply.width
    k, n = matrix.shape
    parts, columns = -(-k // (kc * width)), -(-n // nr)
    # the bytes of weights keep their order in the dwords, whose weights are always signed
    element = f"int{8 * itemsize(multiply.element)}" if multiply.of_integers else matrix.dtype
    padded = np.zeros((parts * kc * width, columns * nr), element)
    padded[:k, :n] = matrix
    split = padded.reshape(parts, kc, width, columns, nr).transpose(0, 3, 1, 4, 2)
    return np.ascontiguousarray(split).view(packed_type(multiply))[..., 0]
