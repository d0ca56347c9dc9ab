"""Reductions that end where an operand says."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check
from tvmconv.tir.general.bound_loops import BoundLoops


def test_a_marked_loop_ends_where_its_guards_fail():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "int32"), n: T.Buffer((2,), "int32"), y: T.Buffer((4,), "int32")):
        for t in range(4):
            for c in T.serial(64, annotations={"tvmconv.bound": 1}):
                y[t] = y[t] + T.if_then_else(c < n[1] - n[0], x[c], 0) * T.if_then_else(
                    c < n[1] - n[0], x[c] + 1, 0
                )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((64,), "int32"), n: T.Buffer((2,), "int32"), y: T.Buffer((4,), "int32")
    ):
        for t in range(4):
            for c in range(n[1] - n[0]):
                y[t] = y[t] + x[c] * (x[c] + 1)

    check(BoundLoops(), before, expected)


def test_other_guards_stay():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "int32"), n: T.Buffer((2,), "int32"), y: T.Buffer((4,), "int32")):
        for t in range(4):
            for c in T.serial(64, annotations={"tvmconv.bound": 1}):
                y[t] = y[t] + T.if_then_else(c < n[0], x[c], 0) * T.if_then_else(c < n[1], x[c], 0)
            for c in T.serial(64, annotations={"tvmconv.bound": 1}):
                y[t] = y[t] + T.if_then_else(t < n[0], x[c], 0)
            for c in T.serial(64, annotations={"tvmconv.bound": 1}):
                y[t] = y[t] + T.if_then_else(t < n[1] and c < n[0], x[c], 0)
            for c in T.serial(64, annotations={"tvmconv.bound": 1}):
                y[t] = y[t] + T.if_then_else(c < n[0], x[c], 1)

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((64,), "int32"), n: T.Buffer((2,), "int32"), y: T.Buffer((4,), "int32")
    ):
        for t in range(4):
            for c in range(n[0]):
                y[t] = y[t] + x[c] * T.if_then_else(c < n[1], x[c], 0)
            for c in range(64):
                y[t] = y[t] + T.if_then_else(t < n[0], x[c], 0)
            for c in range(n[0]):
                y[t] = y[t] + T.if_then_else(t < n[1], x[c], 0)
            for c in range(64):
                y[t] = y[t] + T.if_then_else(c < n[0], x[c], 1)

    check(BoundLoops(), before, expected)


def test_a_loop_with_a_range_has_the_steps_between_its_guards():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "int32"), y: T.Buffer((9,), "int32")):
        for t in range(9):
            for c in T.serial(16, annotations={"tvmconv.range": 1}):
                y[t] = y[t] + T.if_then_else(
                    t * 5 <= c + 8 and c + t * 4 < 24 and t < 8, x[c + t], 0
                )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "int32"), y: T.Buffer((9,), "int32")):
        for t in range(9):
            for c in range(T.min(16, 24 - t * 4) - T.max(0, t * 5 - 8)):
                y[t] = y[t] + T.if_then_else(t < 8, x[c + T.max(0, t * 5 - 8) + t], 0)

    check(BoundLoops(), before, expected)
