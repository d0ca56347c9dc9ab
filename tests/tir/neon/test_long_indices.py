"""Indices of 64 bits: extended ones, and unchanged ones."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check
from tvmconv.tir.neon.long_indices import LongIndices


@T.prim_func(private=True, s_tir=True)
def sums(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32"), first: T.int32):
    for i in range(4):
        y[T.Ramp(i * 4 + first % 8, 1, 4)] = x[
            T.Ramp(T.min(T.max(first - i, 0), 30) * 2, 1, 4)
        ] + T.Broadcast(i * 3 + x[7], 4)


def test_operands_of_indices_and_of_their_bounds_are_extended_one_by_one_and_constants_stay():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32"), first: T.int32):
        for i in range(4):
            y[
                T.Ramp(T.Cast("int64", i) * T.int64(4) + T.Cast("int64", first % 8), T.int64(1), 4)
            ] = x[
                T.Ramp(
                    T.min(
                        T.max(T.Cast("int64", first) - T.Cast("int64", i), T.int64(0)),
                        T.int64(30),
                    )
                    * T.int64(2),
                    T.int64(1),
                    4,
                )
            ] + T.Broadcast(i * 3 + x[7], 4)

    check(LongIndices(), sums, expected)
