"""Loops of a reduction that are unrolled before LLVM."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.neon.inorder_unroll import InorderUnroll


def added(s: Any, x: Any, w: Any, step: Any, number: int) -> Any:
    """A sum and the product of a vector and a lane of another."""
    weight, data = (tirx.BufferLoad(b, [tirx.Ramp(step * 4, 1, 4)]) for b in (w, x))
    product = tirx.Mul(weight, tirx.Shuffle([data], [number] * 4))
    return tirx.Add(tirx.BufferLoad(s, [0]), product)


def _sums(extent: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def sums(x: T.Buffer((4 * extent,), "float32"), w: T.Buffer((4 * extent,), "float32")):
        s = T.alloc_buffer((1,), "float32x4", scope="local")
        for i in range(extent):
            s[0] = added(s, x, w, i, 0)
            s[0] = added(s, x, w, i, 1)
            s[0] = added(s, x, w, i, 2)
            s[0] = added(s, x, w, i, 3)
            s[0] = added(s, x, w, i, 0)
            s[0] = added(s, x, w, i, 1)

    return sums


def _unrolled(extent: int, steps: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def unrolled(x: T.Buffer((4 * extent,), "float32"), w: T.Buffer((4 * extent,), "float32")):
        s = T.alloc_buffer((1,), "float32x4", scope="local")
        for i in range(extent // steps):
            for step in T.unroll(steps):
                s[0] = added(s, x, w, i * steps + step, 0)
                s[0] = added(s, x, w, i * steps + step, 1)
                s[0] = added(s, x, w, i * steps + step, 2)
                s[0] = added(s, x, w, i * steps + step, 3)
                s[0] = added(s, x, w, i * steps + step, 0)
                s[0] = added(s, x, w, i * steps + step, 1)

    return transformed(unrolled, tirx.transform.UnrollLoop(), tirx.transform.StmtSimplify())


def test_a_short_loop_is_unrolled():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), w: T.Buffer((8,), "float32")):
        s = T.alloc_buffer((1,), "float32x4", scope="local")
        s[0] = added(s, x, w, 0, 0)
        s[0] = added(s, x, w, 0, 1)
        s[0] = added(s, x, w, 0, 2)
        s[0] = added(s, x, w, 0, 3)
        s[0] = added(s, x, w, 0, 0)
        s[0] = added(s, x, w, 0, 1)
        s[0] = added(s, x, w, 1, 0)
        s[0] = added(s, x, w, 1, 1)
        s[0] = added(s, x, w, 1, 2)
        s[0] = added(s, x, w, 1, 3)
        s[0] = added(s, x, w, 1, 0)
        s[0] = added(s, x, w, 1, 1)

    check(InorderUnroll(False), _sums(2), expected)


@pytest.mark.parametrize(("ordered", "steps"), [(False, 4), (True, 8)])
def test_steps_of_a_long_loop_are_unrolled(ordered: bool, steps: int):
    check(InorderUnroll(ordered), _sums(16), _unrolled(16, steps))


def test_an_extent_that_nothing_divides_stays():
    check_same(InorderUnroll(False), _sums(17))
