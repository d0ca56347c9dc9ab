"""The order of operands by which ``max`` and ``min`` keep NaN."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.nan_extrema import ConstantsFirst


def test_the_constant_goes_first():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.min(T.max(x[i], T.float32(0)), T.float32(6))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.min(T.float32(6), T.max(T.float32(0), x[i]))

    check(ConstantsFirst(), before, expected)


def test_variables_and_integers_stay_in_order():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = T.max(x[i], x[T.min(i, 7)])

    check_same(ConstantsFirst(), others)
