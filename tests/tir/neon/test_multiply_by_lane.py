"""Scalars that multiply vectors, as lanes of one vector load."""

from __future__ import annotations

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.kernels import nodes
from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.neon.multiply_by_lane import MultiplyByLane


def test_the_channels_of_a_pixel_are_lanes_of_one_vector():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((40,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(8):
            y[T.Ramp(0, 1, 4)] = T.Broadcast(x[i * 4], 4) * y[T.Ramp(0, 1, 4)]
            y[T.Ramp(0, 1, 4)] = T.Broadcast(x[i * 4 + 7], 4) * y[T.Ramp(0, 1, 4)]
            y[T.Ramp(0, 1, 4)] = T.Broadcast(x[2], 4) * y[T.Ramp(0, 1, 4)]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((40,), "float32"), y: T.Buffer((4,), "float32")):
        for i in range(8):
            y[T.Ramp(0, 1, 4)] = (
                T.Shuffle([x[T.Ramp(i * 4, 1, 4)]], [0, 0, 0, 0]) * y[T.Ramp(0, 1, 4)]
            )
            y[T.Ramp(0, 1, 4)] = (
                T.Shuffle([x[T.Ramp(i * 4 + 4, 1, 4)]], [3, 3, 3, 3]) * y[T.Ramp(0, 1, 4)]
            )
            y[T.Ramp(0, 1, 4)] = T.Shuffle([x[T.Ramp(0, 1, 4)]], [2, 2, 2, 2]) * y[T.Ramp(0, 1, 4)]

    check(MultiplyByLane(4), before, expected)


def _spread(extent=40, dtype="float32", stride=4, offset=1, lanes=4):
    @T.prim_func(private=True, s_tir=True)
    def spread(x: T.Buffer((extent,), dtype), y: T.Buffer((lanes,), dtype)):
        for i in range(8):
            y[T.Ramp(0, 1, lanes)] = T.Broadcast(x[i * stride + offset], lanes)

    return spread


@pytest.mark.parametrize(
    "other",
    [
        {"stride": 1},
        {"stride": 6},
        {"extent": 30},  # the vector of the last elements would end after the buffer
        {"lanes": 8},
        {"dtype": "float64"},
        {"dtype": "int32"},
    ],
    ids=str,
)
def test_other_scalars_are_read_by_themselves(other):
    assert nodes(transformed(_spread(), MultiplyByLane(4)), tirx.Shuffle)
    check_same(MultiplyByLane(4), _spread(**other))
