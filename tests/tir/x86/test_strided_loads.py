"""Loads of every n-th element."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.x86.strided_loads import StridedLoads


def test_neighbors_are_loaded_as_vectors_and_picked():
    """Forwards, and backwards; nothing outside of the elements is read."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "float32"), y: T.Buffer((16,), "float32"), i: T.int32):
        y[T.Ramp(0, 1, 8)] = x[T.Ramp(i, 2, 8)]
        y[T.Ramp(8, 1, 8)] = x[T.Ramp(i, -1, 8)]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "float32"), y: T.Buffer((16,), "float32"), i: T.int32):
        y[T.Ramp(0, 1, 8)] = T.Shuffle(
            [x[T.Ramp(i, 1, 8)], x[T.Ramp(i + 7, 1, 8)]], [0, 2, 4, 6, 9, 11, 13, 15]
        )
        y[T.Ramp(8, 1, 8)] = T.Shuffle([x[T.Ramp(i - 7, 1, 8)]], [7, 6, 5, 4, 3, 2, 1, 0])

    check(StridedLoads(), before, expected)


def test_other_loads_stay():
    """Neighbors, long distances, distances that vary, and vectors of few elements."""

    @T.prim_func(private=True, s_tir=True)
    def same(x: T.Buffer((640,), "float32"), y: T.Buffer((28,), "float32"), i: T.int32):
        y[T.Ramp(0, 1, 8)] = x[T.Ramp(i, 1, 8)]
        y[T.Ramp(8, 1, 8)] = x[T.Ramp(0, 9, 8)]
        y[T.Ramp(16, 1, 8)] = x[T.Ramp(0, i, 8)]
        y[T.Ramp(24, 1, 4)] = x[T.Ramp(0, 3, 4)]

    check_same(StridedLoads(), same)
