"""Intrinsics that become expressions."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx
from tvm.script import tirx as T

from tests.operators.harness import HOST, Built
from tests.tir.rewrites import check, check_same
from tvmconv.operators import arcs, math
from tvmconv.tir.general.relax_intrinsics import VectorizableMath

EXPRESSIONS = [
    *("exp", "log", "tanh", "sigmoid", "erf", "cosh", "sinh"),
    *("asin", "acos", "atan"),
]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_call_becomes_its_expression(name):
    intrinsic, expression = getattr(tirx, name), getattr(math, name, None) or getattr(arcs, name)

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = intrinsic(x[i]) + x[i]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = expression(x[i]) + x[i]

    check(VectorizableMath(), before, expected)


@pytest.mark.parametrize("name", ["asin", "acos", "atan"])
def test_inverses_of_sine_and_tangent(name):
    special = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-38, 0.41421357]
    ends = 1 - np.logspace(-7, 0, 50)
    far = np.concatenate([np.linspace(-1.1, 1.1, 221), np.logspace(-30, 30, 61), ends, -ends])
    x = np.concatenate([special, far]).astype(np.float32)
    built = Built(lambda t: te.compute(t.shape, lambda i: getattr(tirx, name)(t[i])), [x], HOST)
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, f"arc{name[1:]}")(x.astype(np.float64))
    (y,) = built()
    np.testing.assert_allclose(y, wanted, rtol=4e-7, atol=0)
    np.testing.assert_array_equal(np.signbit(y[:2]), np.signbit(wanted[:2]))
    assert not built.code.has(name)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_isnan_is_vector_code_that_finds_nan(dtype):
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1] * 20, dtype)
    built = Built(lambda t: te.compute(t.shape, lambda i: tirx.isnan(t[i])), [x], HOST)
    (y,) = built()
    np.testing.assert_array_equal(y, np.isnan(x))
    assert built.vector_instructions() > 0


def test_other_types_and_intrinsics_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.Cast("float32", T.exp(x[i])) + T.sqrt(y[i])

    check_same(VectorizableMath(), others)
