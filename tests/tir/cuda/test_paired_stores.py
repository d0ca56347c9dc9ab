"""Stores of two neighboring accumulators, in kernels for tensor cores."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.cuda import SM_90, default_kernel, source_of
from tests.tir.rewrites import check, check_same, mma
from tvmconv.tir.cuda.paired_stores import PairedStores


def _stores(stride: int = 1, first: int = 0, multiplies: bool = True, own: bool = False) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def stores(x: T.Buffer((128,), "float32"), y: T.Buffer((256,), "float32")):
        with T.launch_thread("threadIdx.x", 32) as t:
            a = T.alloc_buffer((4,), scope="local")
            b = T.alloc_buffer((2,), scope="local")
            c = T.alloc_buffer((4,), scope="local")
            T.evaluate(mma(c, a, b) if multiplies else T.float32(0))
            for n in range(2):
                if t + (n if own else 0) < 20:
                    y[t * 4 + n * stride + first] = c[n] + x[t]

    return stores


def test_two_neighbors_become_a_vector():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((128,), "float32"), y: T.Buffer((256,), "float32")):
        with T.launch_thread("threadIdx.x", 32) as t:
            a = T.alloc_buffer((4,), scope="local")
            b = T.alloc_buffer((2,), scope="local")
            c = T.alloc_buffer((4,), scope="local")
            T.evaluate(mma(c, a, b))
            if t < 20:
                y[T.Ramp(t * 4, 1, 2)] = tirx.Shuffle([c[0] + x[t], c[1] + x[t]], [0, 1])

    check(PairedStores(), _stores(), expected)


def test_residuals_are_loaded_by_vectors_where_images_have_an_even_area():
    """TVMScript has no vectors of two as variables."""
    for size, loads in ((6, 1), (5, 0)):
        kernel = default_kernel(
            f"mb2ic8ih{size}oc32kh1+bias+add+relu", "implicit_gemm_mma", SM_90, split=1
        )
        text = source_of(kernel).text
        assert len(re.findall("float2 residual_pair = ", text)) == loads
        assert len(re.findall(r"\*\(float2\*\)\(unflatten_ptr \+ ", text)) == loads


@pytest.mark.parametrize(
    "other", [{"stride": 2}, {"first": 1}, {"multiplies": False}, {"own": True}], ids=str
)
def test_other_stores_stay(other: dict[str, Any]):
    check_same(PairedStores(), _stores(**other))
