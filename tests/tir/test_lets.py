"""Values that expressions bind, in buffers."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.lets import SpillLets


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


def test_a_read_that_a_condition_guards_stays_behind_it():
    @T.prim_func(private=True, s_tir=True)
    def guarded(x: T.Buffer((8,), "float32"), y: T.Buffer((9,), "float32")):
        for i in range(9):
            v = T.Var("v", "float32")
            y[i] = T.if_then_else(i < 8, T.Let(v * v, where={v: x[i]}), T.float32(0))

    check_same(SpillLets(), guarded)
