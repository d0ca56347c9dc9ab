"""Registers with values that are rounded where they are read, in kernels for tensor cores."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, mma
from tvmconv.tir.cuda.late_rounding import LateRounding


def _copies(multiplies: bool = True, plain: bool = False) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def copies(x: T.Buffer((128,), "float32"), y: T.Buffer((64,), "uint32")):
        with T.launch_thread("threadIdx.x", 32) as t:
            a = T.alloc_buffer((4,), scope="local")
            b = T.alloc_buffer((2,), scope="local")
            c = T.alloc_buffer((4,), scope="local")
            held = T.alloc_buffer((2,), "uint32", scope="local")
            for n in range(2):
                held[n] = T.call_pure_extern("uint32", "tvmconv_halves", x[n], x[n + 2])
            if plain:
                held[1] = T.uint32(0)
            T.evaluate(mma(c, a, b) if multiplies else T.float32(0))
            y[T.Ramp(t * 2, 1, 2)] = held[T.Ramp(0, 1, 2)]

    return copies


def test_values_are_rounded_where_they_are_read():
    def halves(low: Any, high: Any) -> Any:
        return tirx.call_pure_extern("uint32", "tvmconv_halves", low, high)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((128,), "float32"), y: T.Buffer((64,), "uint32")):
        with T.launch_thread("threadIdx.x", 32) as t:
            a = T.alloc_buffer((4,), scope="local")
            b = T.alloc_buffer((2,), scope="local")
            c = T.alloc_buffer((4,), scope="local")
            held = T.alloc_buffer((4,), scope="local")
            for n in range(2):
                held[n * 2] = x[n]
                held[n * 2 + 1] = x[n + 2]
            T.evaluate(mma(c, a, b))
            one = T.meta_var(halves(held[0], held[1]))
            other = T.meta_var(halves(held[2], held[3]))
            y[T.Ramp(t * 2, 1, 2)] = tirx.Shuffle([one, other], [0, 1])

    check(LateRounding(), _copies(), expected)


@pytest.mark.parametrize("other", [{"multiplies": False}, {"plain": True}], ids=str)
def test_other_registers_stay(other: dict[str, Any]):
    check_same(LateRounding(), _copies(**other))
