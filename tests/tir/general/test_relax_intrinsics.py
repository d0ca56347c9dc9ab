"""Intrinsics that become expressions."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.script import tirx as T

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


def test_other_types_and_intrinsics_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.Cast("float32", T.exp(x[i])) + T.sqrt(y[i])

    check_same(VectorizableMath(), others)
