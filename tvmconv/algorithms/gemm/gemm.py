"""The packed GEMM of Goto and van de Geijn as a tensor expression.

As in FTEngine (Tan 2023, sections 4.2.2 and 4.2.3), both operands are copied into slivers in the
order in which the register tile reads them. Row i of A and column j of B are at

    ``A[(i / mr) mr kc + k mr + i mod mr]`` and ``B[(j / nr) nr kc + k nr + j mod nr]``

within a block of ``kc`` inner steps. Partial slivers are filled with zeros. The paper is
column-major, which exchanges the operands. Here C is row-major, so that vectors run along n.
"""

from __future__ import annotations

import numpy as np

from tvmconv.algorithms.base import FloatArray
from tvmconv.algorithms.padding import zero_unless
from tvmconv.core.config import Config
from tvmconv.core.datatypes import FLOAT32
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import Expr, Tensor

# data types of the expression and its schedules
TYPES = (FLOAT32,)


def compute(workload: GemmWorkload, machine: Machine, config: Config) -> list[Tensor]:
    """Arguments and result of ``C = alpha A B + beta C``.

    Blocks: ``pack_a``, ``pack_b`` (unless B is packed), ``product``, the sums over one block of
    ``kc`` steps, and ``output``, which adds them in C.
    """
    from tvmconv.tvm_api import te, tirx

    m, n, k = workload.m, workload.n, workload.k
    mr, nr, kc, lanes = config.int("mr"), config.int("nr"), config.int("kc"), machine.lanes
    parts, rows, columns = -(-k // kc), -(-m // mr), -(-n // nr)
    types = workload.types
    a = te.placeholder((m, k), types.data, name="a")
    prepacked = bool(config["prepacked"])
    b = te.placeholder((parts, columns, kc, nr) if prepacked else (k, n), types.weight, name="b")

    def inside(value: Expr, *limits: tuple[Expr, int, int]) -> Expr:
        """The value, or 0 if an index exceeds its limit."""
        tests = [index < limit for index, limit, extent in limits if extent > limit]
        return zero_unless(tests, value)

    def sliver_a(p: Expr, s: Expr, x: Expr, i: Expr) -> Expr:
        row, step = s * mr + i, p * kc + x
        return inside(a[row, step], (row, m, rows * mr), (step, k, parts * kc))

    def sliver_b(p: Expr, s: Expr, x: Expr, j: Expr) -> Expr:
        column, step = s * nr + j, p * kc + x
        return inside(b[step, column], (column, n, columns * nr), (step, k, parts * kc))

    packed_a = te.compute((parts, rows, kc, mr), sliver_a, name="pack_a")
    packed_b = b if prepacked else te.compute((parts, columns, kc, nr), sliver_b, name="pack_b")
    x = te.reduce_axis((0, kc), "x")
    vectors = nr // lanes

    def multiply(p: Expr, i: Expr, v: Expr, j: Expr) -> Expr:
        right = packed_b[p, v // vectors, x, v % vectors * lanes + j]
        left = packed_a[p, i // mr, x, i % mr].astype(types.accumulator)
        return te.sum(left * right.astype(types.accumulator), axis=[x])

    product = te.compute((parts, rows * mr, columns * vectors, lanes), multiply, name="product")
    p = te.reduce_axis((0, parts), "p")
    c = te.placeholder((m, n), types.output, name="c") if workload.beta else None
    factors = (workload.alpha, workload.beta, 0)
    alpha, beta, zero = (tirx.const(f, types.accumulator) for f in factors)

    def finish(i: Expr, j: Expr) -> Expr:
        value = product[p, i, j // lanes, j % lanes]
        value = value if workload.alpha == 1 else value * alpha
        if c is not None:
            value = value + tirx.if_then_else(p == 0, beta * c[i, j], zero)
        return te.sum(value, axis=[p])

    output = te.compute((m, n), finish, name="output", attrs={"tvmconv.algorithm": "gemm"})
    return [a, b, *([c] if c is not None else []), output]


def pack_b(matrix: FloatArray, config: Config) -> FloatArray:
    """``(k, n)`` to ``(k / kc, n / nr, kc, nr)``, the last block and sliver filled with zeros."""
    kc, nr = config.int("kc"), config.int("nr")
    k, n = matrix.shape
    parts, columns = -(-k // kc), -(-n // nr)
    padded = np.zeros((parts * kc, columns * nr), matrix.dtype)
    padded[:k, :n] = matrix
    return np.ascontiguousarray(padded.reshape(parts, kc, columns, nr).transpose(0, 2, 1, 3))
