"""Extrema on GPUs that keep the NaN of either operand."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.cuda.extrema import Extrema


def test_extrema_of_two_variables_are_calls():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32")):
        x[0] = T.max(x[1], x[2])
        x[T.Ramp(4, 1, 4)] = T.min(x[T.Ramp(0, 1, 4)], x[T.Ramp(4, 1, 4)])

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32")):
        x[0] = T.call_pure_extern("float32", "tvmconv_maximum", x[1], x[2])
        x[T.Ramp(4, 1, 4)] = T.call_pure_extern(
            "float32x4", "tvmconv_minimum", x[T.Ramp(0, 1, 4)], x[T.Ramp(4, 1, 4)]
        )

    check(Extrema(), before, expected)


def test_constants_and_integers_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int32")):
        x[0] = T.max(x[1], T.float32(0))
        y[0] = T.max(y[1], y[2])

    check_same(Extrema(), others)
