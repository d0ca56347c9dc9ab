"""Values that expressions bind, in buffers."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import te, tirx
from tvm.script import tirx as T

from tests.host import HOST
from tests.tir.rewrites import check, check_same
from tvmconv.kernels.rules import schedule_function
from tvmconv.operators import math
from tvmconv.tir.general.spill_lets import SpillLets
from tvmconv.tir.pipeline import compile_function


def test_a_bound_value_is_stored_before_the_statement():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        v = T.Var("v", "float32")
        y[0] = T.Let(v * v, where={v: x[0]}) + x[1]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        v = T.alloc_buffer((1,), "float32")
        v[0] = x[0]
        y[0] = v[0] * v[0] + x[1]

    check(SpillLets(), before, expected)


def test_nested_vectors_are_stored_from_the_inside():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        inner = T.Var("inner", "float32x8")
        outer = T.Var("outer", "float32x8")
        y[T.Ramp(0, 1, 8)] = T.Let(
            outer * outer,
            where={outer: T.Let(inner + inner, where={inner: x[T.Ramp(0, 1, 8)]})},
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        inner = T.alloc_buffer((8,), "float32")
        inner[T.Ramp(0, 1, 8)] = x[T.Ramp(0, 1, 8)]
        outer = T.alloc_buffer((8,), "float32")
        outer[T.Ramp(0, 1, 8)] = inner[T.Ramp(0, 1, 8)] + inner[T.Ramp(0, 1, 8)]
        y[T.Ramp(0, 1, 8)] = outer[T.Ramp(0, 1, 8)] * outer[T.Ramp(0, 1, 8)]

    check(SpillLets(), before, expected)


def test_a_read_that_a_condition_guards_stays_after_it():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((9,), "float32")):
        for i in range(9):
            v = T.Var("v", "float32")
            w = T.Var("w", "float32")
            y[i] = T.if_then_else(
                i < 8,
                T.Let(v * v, where={v: x[i]}) + T.Let(w + w, where={w: x[i]}),
                T.float32(0),
            )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((9,), "float32")):
        for i in range(9):
            v = T.alloc_buffer((1,), "float32")
            w = T.alloc_buffer((1,), "float32")
            if i < 8:
                v[0] = x[i]
                w[0] = x[i]
            y[i] = T.if_then_else(i < 8, v[0] * v[0] + (w[0] + w[0]), T.float32(0))

    check(SpillLets(), before, expected)


def test_expressions_that_bind_nothing_stay():
    @T.prim_func(private=True, s_tir=True)
    def plain(x: T.Buffer((8,), "float32"), y: T.Buffer((9,), "float32")):
        for i in range(9):
            y[i] = T.if_then_else(i < 8, x[i] * x[i], T.float32(0))

    check_same(SpillLets(), plain)


def test_nested_polynomials_under_a_condition_compile_and_keep_within_bounds():
    """Two sources side by side, each read only where it has values."""
    left = te.placeholder((5, 33), name="left")
    right = te.placeholder((3, 33), name="right")

    def element(i, j):
        one = math.tanh(math.exp(left[i, j]))
        return tirx.if_then_else(i < 5, one, math.sigmoid(math.exp(right[i - 5, j])))

    func = te.create_prim_func([left, right, te.compute((8, 33), element, name="joined")])
    code = compile_function(schedule_function(func.with_attr("global_symbol", "main"), HOST), HOST)
    arrays = [np.linspace(-2, 1, n * 33, dtype=np.float32).reshape(n, 33) for n in (5, 3)]
    result = tvm.runtime.tensor(np.full((8, 33), np.nan, np.float32))
    code["main"](*map(tvm.runtime.tensor, arrays), result)
    first, second = (np.exp(array.astype(np.float64)) for array in arrays)
    expected = np.concatenate([np.tanh(first), 1 / (1 + np.exp(-second))])
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
