"""Slices two by two: which loops are written so, and what is left over."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tvm.script import tirx as T

from tests.cuda import SM_90, check_kernel, default_kernel, source_of
from tests.tir.rewrites import barrier, check, check_same
from tvmconv.tir.cuda.unroll_slice_pairs import UnrollSlicePairs

TILE = {"m": 32, "p": 64, "k": 8, "slice": "channels", "split": 1, "pipeline": "double"}
BARRIER = "__syncthreads();"


@pytest.mark.parametrize(
    ("problem", "knobs", "pairs", "barriers"),
    [
        # a slice before the loop, one after the last barrier, then the warps' sums: 17 iterations
        # are eight pairs and one
        ("ic16ih6oc20kh3ph1+bias", {}, 8, 6),
        ("ic8ih6oc20kh3ph1+bias", {}, 4, 5),
        # windows of vectors
        ("ic72ih8oc20kh1+relu", {}, 4, 5),
        ("ic48ih6oc20kh3ph1", {"m": 64, "split": 6}, 4, 3),
    ],
)
def test_slices_of_few_products_go_two_by_two(problem, knobs, pairs, barriers):
    kernel = check_kernel(problem, "implicit_gemm", **{**TILE, **knobs})
    text = source_of(kernel).text
    assert f"_pair < {pairs};" in text
    assert "tvmconv_turned" not in text
    # nothing asks whose turn it is
    assert not re.search(r"shared\w*\[[^\]]*& 1\)", text)
    assert text.count(BARRIER) == barriers


@pytest.mark.parametrize(
    "knobs",
    [
        # a slice has more than 512 products of a thread; three iterations; blocks of 256 threads
        {"k": 24},
        {"k": 12, "split": 9},
        {"m": 128, "p": 128, "k": 8},
    ],
)
def test_others_are_left(knobs):
    kernel = default_kernel("ic48ih6oc20kh3ph1", "implicit_gemm", SM_90, **{**TILE, **knobs})
    assert "_pair" not in source_of(kernel).text


def _slices(count: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def slices(x: T.Buffer((1024,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            a = T.alloc_buffer((1,), scope="local")
            for v in range(count):
                T.evaluate(barrier())
                a[0] = a[0] + x[v % 2 * 64 + t] * T.float32(2)
            y[t] = a[0]

    return slices


def test_two_iterations_become_one_and_the_last_is_after_them():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((1024,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 64) as t:
            a = T.alloc_buffer((1,), scope="local")
            for _ in range(2):
                T.evaluate(barrier())
                a[0] = a[0] + x[t] * T.float32(2)
                T.evaluate(barrier())
                a[0] = a[0] + x[t + 64] * T.float32(2)
            T.evaluate(barrier())
            a[0] = a[0] + x[t] * T.float32(2)
            y[t] = a[0]

    check(UnrollSlicePairs(), _slices(5), expected)


def test_few_iterations_stay():
    check_same(UnrollSlicePairs(), _slices(3))
