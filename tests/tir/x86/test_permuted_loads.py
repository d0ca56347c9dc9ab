"""Loads of one vector's lanes in another order."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.x86.permuted_loads import PermutedLoads


def test_lanes_of_one_group_are_loaded_once():
    """Channels of a group, from a block, and from the second half of a block."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "float32"), y: T.Buffer((16,), "float32"), i: T.int32):
        y[T.Ramp(0, 1, 8)] = x[
            T.Broadcast(i * 8 + 16, 8)
            + T.Ramp(0, 1, 8) // T.Broadcast(4, 8) * T.Broadcast(4, 8)
            + T.Broadcast(1, 8)
            - T.Broadcast(8, 8)
        ]
        y[T.Ramp(8, 1, 8)] = x[T.Broadcast(i * 4, 8) + T.Ramp(0, 1, 8) // T.Broadcast(2, 8)]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "float32"), y: T.Buffer((16,), "float32"), i: T.int32):
        y[T.Ramp(0, 1, 8)] = T.Shuffle([x[T.Ramp(i * 8 + 8, 1, 8)]], [1, 1, 1, 1, 5, 5, 5, 5])
        y[T.Ramp(8, 1, 8)] = T.Shuffle(
            [x[T.Ramp(i * 4, 1, 4)], x[T.Ramp(i * 4, 1, 4)]], [0, 0, 1, 1, 2, 2, 3, 3]
        )

    check(PermutedLoads(), before, expected)


def test_other_loads_stay():
    """Consecutive lanes, a group that is not aligned, and offsets of variables."""

    @T.prim_func(private=True, s_tir=True)
    def same(x: T.Buffer((64,), "float32"), y: T.Buffer((24,), "float32"), i: T.int32):
        y[T.Ramp(0, 1, 8)] = x[T.Ramp(i, 1, 8)]
        y[T.Ramp(8, 1, 8)] = x[T.Broadcast(i, 8) + T.Ramp(0, 1, 8) // T.Broadcast(2, 8)]
        y[T.Ramp(16, 1, 8)] = x[T.Ramp(0, 1, 8) // T.Broadcast(i, 8)]

    check_same(PermutedLoads(), same)
