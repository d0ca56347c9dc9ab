"""Matrix products by scalable vectors, called under qemu and read."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import topi

from tests.assembly import SVE_GATHER, SVE_LANE, SVE_LOAD, assembly, matching, spills
from tests.compile.test_sve import LENGTHS, SCALABLE
from tests.compile.test_sve_operators import Case
from tests.emulating import CALL, HOSTILE, needs_arm, run_functions, vectors_of
from tests.operators.harness import normal
from tvmconv.core.errors import ConfigError
from tvmconv.core.gemm_workload import GemmWorkload
from tvmconv.kernels.gemm import make_gemm
from tvmconv.lab.bench.gemm_run import exact, random_operands
from tvmconv.machines.presets import MACHINES
from tvmconv.tir.general.record_vector_code import recorded_code
from tvmconv.tir.pipeline import compile_function

PRODUCTS = {
    # rows and columns that end inside of tiles, steps in parts, columns in panels
    "gemm:m26n100k70": {"mr": 12, "kc": 24, "mc": 12, "nc": 40},
    "gemm:m17n64k33:alpha0.5:beta-2": {"mr": 10, "kc": 34},
}


def multiplied(batches: int, rows: int, columns: int, inner: int, transposed: bool) -> Case:
    a = normal(batches, rows, inner)
    b = normal(batches, *((columns, inner) if transposed else (inner, columns)), seed=1)
    expected = a.astype("float64") @ (b.transpose(0, 2, 1) if transposed else b)
    return Case(lambda x, y: topi.nn.batch_matmul(x, y, transpose_b=transposed), (a, b), expected)


# columns without whole segments, values of a column in a row, inner steps shorter than vectors
MATRICES = ((3, 20, 38, 64, False), (1, 13, 100, 36, True), (1, 7, 24, 35, True))


@needs_arm
@pytest.mark.parametrize("caller", [CALL, pytest.param(HOSTILE, marks=pytest.mark.slow)])
def test_products_at_every_vector_length(caller: Path, tmp_path: Path) -> None:
    functions, operands, expected = [], [], []
    for (text, knobs), prepacked in product(PRODUCTS.items(), (False, True)):
        workload = GemmWorkload.parse(text)
        kernel = make_gemm(workload, SCALABLE, prepacked=prepacked, **knobs)
        assert kernel.config["vectors"] == 2
        inputs = random_operands(workload)
        functions.append(kernel.prim_func())
        expected.append(exact(workload, inputs))
        if prepacked:
            inputs = {**inputs, "b": kernel.pack_b(inputs["b"])}
        operands.append([*inputs.values()])
    for case in (multiplied(*shape) for shape in MATRICES):
        functions.append(case.function(SCALABLE))
        operands.append([*case.arrays])
        expected.append(case.expected)
    for arrays, result in zip(operands, expected, strict=True):
        arrays.append(np.full(result.shape, np.nan, np.float32))
    lengths = map(vectors_of, LENGTHS)
    for found in run_functions(functions, operands, SCALABLE, tmp_path, *lengths, caller=caller):
        for result, correct in zip(found, expected, strict=True):
            assert np.abs(result - correct).max() <= 1e-6 * np.abs(correct).max()


@pytest.mark.parametrize("steps", [1, 3, 4, 5])
def test_short_reductions_have_a_default(steps: int) -> None:
    assert bool(make_gemm(GemmWorkload(40, 64, steps), SCALABLE).config["vectors"]) == (steps > 3)


@pytest.mark.parametrize("name", ["aarch64+sve", "neoverse-v1+sve"])
@pytest.mark.parametrize("rows", [8, 10, 12])
def test_the_tiles_of_the_paper_read_one_stream_of_columns(name: str, rows: int) -> None:
    kernel = make_gemm(GemmWorkload(512, 512, 512), MACHINES[name], mr=rows, mc=rows)
    code = compile_function(kernel.prim_func(), kernel.machine)
    body = assembly(code).hot_loop(SVE_LANE)
    # two steps of two vectors; every FMA is by lane
    assert len(matching(SVE_LANE, body)) == 2 * 2 * rows
    assert len(matching(SVE_LOAD, body)) == 2 * 2
    assert not spills(body)


@pytest.mark.parametrize("name", ["aarch64+sve", "neoverse-v1+sve"])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_computed_matrices_multiply_by_lanes(name: str, transposed: bool) -> None:
    case = multiplied(1, 40, 128, 64, transposed)
    with recorded_code() as codes:
        body = case.assembly(MACHINES[name]).hot_loop(SVE_LANE)
    assert len(matching(SVE_LANE, body)) == 4 * 4 * 5
    assert not spills(body)
    assert codes["main"].startswith("SVE")


@pytest.mark.parametrize("knobs", [{"ahead": 64}, {"nr": 8}, {"vectors": 4}])
def test_tiles_that_scalable_vectors_do_not_have_are_refused(knobs: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"tile mr=.* vectors"):
        make_gemm(GemmWorkload(64, 64, 64), SCALABLE, **knobs)


@pytest.mark.parametrize("name", ["aarch64+sve", "neoverse-v1+sve"])
def test_columns_packed_before_are_gathered(name: str) -> None:
    kernel = make_gemm(GemmWorkload(512, 512, 512), MACHINES[name], prepacked=True)
    body = assembly(compile_function(kernel.prim_func(), kernel.machine)).hot_loop(SVE_LANE)
    assert len(matching(SVE_LANE, body)) == 2 * 2 * kernel.config.int("mr")
    assert len(matching(SVE_GATHER, body)) == 2 * 2
    assert not spills(body)


def test_a_product_without_batches_has_neon_code() -> None:
    a, b = normal(12, 32), normal(32, 48, seed=1)
    with recorded_code() as codes:
        Case(topi.matmul, (a, b), a @ b).assembly(SCALABLE)
    assert codes["main"].startswith("NEON")
