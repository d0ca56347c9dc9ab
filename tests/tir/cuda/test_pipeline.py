"""Common expressions of kernels."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.cuda.pipeline import CommonExpressions


def _copies(scope: str) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def copies(x: T.Buffer((128,), "float32"), i: T.int32, j: T.int32):
        a = T.alloc_buffer((128,), scope=scope)
        a[i * j + 1] = x[i * j + 2]
        x[i * j + 3] = a[i * j + 4]

    return copies


def test_what_several_indices_have_in_common_is_computed_once():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((128,), "float32"), i: T.int32, j: T.int32):
        a = T.alloc_buffer((128,), scope="local")
        common: T.let[T.int32] = i * j
        a[common + 1] = x[common + 2]
        x[common + 3] = a[common + 4]

    check(CommonExpressions(), _copies("local"), expected)


def test_functions_with_fragments_stay():
    check_same(CommonExpressions(), _copies("warp"))
