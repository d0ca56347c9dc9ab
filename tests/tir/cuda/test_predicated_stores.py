"""Stores of sums under a predicate: rewritten ones, and unchanged ones."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tvm.script import tirx as T

from tests.cuda import SM_90, default_kernel, run_kernel, source_of
from tests.tir.rewrites import check, check_same
from tvmconv.tir.cuda.predicated_stores import PredicatedStores

TILE = {"m": 64, "p": 64, "k": 8, "slice": "channels", "split": 1, "pipeline": "none"}


def kernel_of(problem: str, **knobs: object) -> str:
    kernel = default_kernel(problem, "implicit_gemm", SM_90, **{**TILE, **knobs})
    return source_of(kernel).text.split('extern "C"')[-1]


# vectors of pixels, and single ones
@pytest.mark.parametrize(
    ("problem", "stores"),
    [
        ("ic8ih10oc70kh3ph1+bias+add+relu", 16),
        ("ic8ih10oc64kh1", 8),
        ("ic8ih7oc70kh3ph1+bias+add", 64),
    ],
)
def test_sums_after_the_last_pixel_are_stored_by_predicate(problem, stores):
    text = kernel_of(problem)
    assert text.count("tvmconv_store((&(") == stores
    # no branch is left around a store: whole pieces have none
    assert not re.search(r"^ {4,}\S*unflatten_ptr[^;]* = ", text, re.MULTILINE)
    kernel = default_kernel(problem, "implicit_gemm", SM_90, **TILE)
    actual, expected = run_kernel(kernel)
    assert abs(actual - expected).max() <= 1e-5 * abs(expected).max()


def test_whole_tiles_are_stored_without_it():
    assert "tvmconv_store" not in kernel_of("ic8ih8oc64kh3ph1+bias+relu")


def _branch(values: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def branch(b: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            a = T.alloc_buffer((values,), scope="local")
            a[0] = T.float32(0)
            if t < 60:
                y[t] = a[0] + b[t]

    return branch


def test_a_branch_around_a_store_becomes_a_predicate():
    @T.prim_func(private=True, s_tir=True)
    def expected(b: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            a = T.alloc_buffer((32,), scope="local")
            a[0] = T.float32(0)
            T.evaluate(
                T.call_extern(
                    "int32",
                    "tvmconv_store",
                    T.address_of(y[t]),
                    a[0] + b[T.Select(t < 60, t, 0)],
                    t < 60,
                )
            )

    check(PredicatedStores(), _branch(32), expected)


def test_stores_of_few_accumulators_stay():
    check_same(PredicatedStores(), _branch(8))
