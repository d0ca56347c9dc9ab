"""Matrix products by scalable vectors, called under qemu and read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tvm import topi

from tests.compile.test_sve import LENGTHS, SCALABLE
from tests.compile.test_sve_operators import Case, check
from tests.emulating import needs_arm, run_functions, vectors_of
from tests.operators.harness import normal
from tvmconv.bench.gemm_run import exact, random_operands
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.kernels.gemm import make_gemm

PRODUCTS = {
    # rows and columns that end inside of tiles, steps in parts, columns in panels
    "gemm:m26n100k70": {"mr": 12, "kc": 24, "mc": 12, "nc": 40},
    "gemm:m17n64k33:alpha0.5:beta-2": {"mr": 10, "kc": 34},
    "gemm:m8n24k16:beta1": {"mr": 8, "vectors": 3, "unroll": 4},
    "gemm:m70n200k50": {},
}


@needs_arm
def test_products_at_every_vector_length(tmp_path: Path) -> None:
    workloads = [GemmWorkload.parse(text) for text in PRODUCTS]
    kernels = [
        make_gemm(w, SCALABLE, **knobs)
        for w, knobs in zip(workloads, PRODUCTS.values(), strict=True)
    ]
    assert all(kernel.config["vectors"] for kernel in kernels)
    given = [random_operands(w) for w in workloads]
    operands = [
        [*inputs.values(), np.full((w.m, w.n), np.nan, np.float32)]
        for w, inputs in zip(workloads, given, strict=True)
    ]
    functions = [kernel.prim_func() for kernel in kernels]
    for results in run_functions(
        functions, operands, SCALABLE, tmp_path, *map(vectors_of, LENGTHS)
    ):
        for w, inputs, result in zip(workloads, given, results, strict=True):
            expected = exact(w, inputs)
            assert np.abs(result - expected).max() <= 1e-6 * np.abs(expected).max(), w


def multiplied(batches: int, rows: int, columns: int, inner: int, transposed: bool) -> Case:
    a = normal(batches, rows, inner)
    b = normal(batches, *((columns, inner) if transposed else (inner, columns)), seed=1)
    wide = a.astype("float64")
    expected = wide @ (b.transpose(0, 2, 1) if transposed else b)
    return Case(lambda x, y: topi.nn.batch_matmul(x, y, transpose_b=transposed), (a, b), expected)


@needs_arm
def test_products_of_computed_matrices_at_every_vector_length(tmp_path: Path) -> None:
    shapes = ((2, 20, 100, 64), (1, 13, 24, 35), (3, 7, 36, 30))
    check([multiplied(*shape, t) for shape in shapes for t in (False, True)], tmp_path)
