"""Dot products as plain arithmetic."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, operator
from tvmconv.tir.general.dot_products import DotProducts


def test_shifts_take_elements_out_of_dwords():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4,), "int16"), w: T.Buffer((4,), "int16"), y: T.Buffer((1,), "int32")):
        y[0] = y[0] + operator(
            "int32",
            "dot_plain_pairs",
            operator("int32", "word", x[2]),
            operator("int32", "word", w[0]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((4,), "int16"), w: T.Buffer((4,), "int16"), y: T.Buffer((1,), "int32")
    ):
        y[0] = y[0] + (
            T.shift_right(T.shift_left(T.reinterpret("int32", x[T.Ramp(2, 1, 2)]), 16), 16)
            * T.shift_right(T.shift_left(T.reinterpret("int32", w[T.Ramp(0, 1, 2)]), 16), 16)
            + T.shift_right(T.shift_left(T.reinterpret("int32", x[T.Ramp(2, 1, 2)]), 0), 16)
            * T.shift_right(T.shift_left(T.reinterpret("int32", w[T.Ramp(0, 1, 2)]), 0), 16)
        )

    check(DotProducts(), before, expected)


def test_other_instructions_are_left():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((2,), "int32"), y: T.Buffer((1,), "int32")):
        y[0] = y[0] + operator("int32", "dot_sdot", x[0], x[1])

    check_same(DotProducts(), before)
