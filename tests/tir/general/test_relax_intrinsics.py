"""Intrinsics that become expressions."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te, tirx
from tvm.script import tirx as T

from tests.operators.harness import HOST, Built
from tests.tir.rewrites import check, check_same
from tvmconv.operators import math
from tvmconv.tir.general.relax_intrinsics import VectorizableMath


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sigmoid", "erf", "cosh", "sinh"])
def test_a_call_becomes_its_expression(name):
    intrinsic, expression = getattr(tirx, name), getattr(math, name)

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = intrinsic(x[i]) + x[i]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = expression(x[i]) + x[i]

    check(VectorizableMath(), before, expected)


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
