"""Loads under a predicate, in kernels for tensor cores."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, mma
from tvmconv.tir.cuda.predicated_loads import PredicatedLoads


def _load(outside: float = 0.0, writes: bool = False, multiplies: bool = True) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def load(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 32) as t:
            a = T.alloc_buffer((4,), scope="local")
            b = T.alloc_buffer((2,), scope="local")
            c = T.alloc_buffer((4,), scope="local")
            a[0] = T.if_then_else(t < 20, x[t + 3], T.float32(outside))
            T.evaluate(mma(c, a, b) if multiplies else T.float32(0))
            y[t] = c[0]
            if writes:
                x[t] = c[0]

    return load


def test_a_selection_becomes_a_predicated_load():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        with T.launch_thread("threadIdx.x", 32) as t:
            a = T.alloc_buffer((4,), scope="local")
            b = T.alloc_buffer((2,), scope="local")
            c = T.alloc_buffer((4,), scope="local")
            a[0] = T.call_pure_extern("float32", "tvmconv_guarded", T.address_of(x[t + 3]), t < 20)
            T.evaluate(mma(c, a, b))
            y[t] = c[0]

    check(PredicatedLoads(), _load(), expected)


@pytest.mark.parametrize(
    "other", [{"outside": 1.0}, {"writes": True}, {"multiplies": False}], ids=str
)
def test_other_selections_stay(other: dict[str, Any]):
    check_same(PredicatedLoads(), _load(**other))
