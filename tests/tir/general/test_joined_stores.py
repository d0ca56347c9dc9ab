"""Stores to every second element, joined."""

from __future__ import annotations

from typing import Any

import pytest
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.joined_stores import JoinedStores


def _stores(second: int = 1, stride: int = 2, lanes: int = 4) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def stores(x: T.Buffer((8,), "float32"), y: T.Buffer((64,), "float32")):
        for i in range(4):
            y[T.Ramp(i * 16, 2, 4)] = x[T.Ramp(0, 1, 4)]
            y[T.Ramp(i * 16 + second, stride, lanes)] = x[T.Ramp(4, 1, lanes)]

    return stores


def test_two_stores_become_one():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((64,), "float32")):
        for i in range(4):
            y[T.Ramp(i * 16, 1, 8)] = T.Shuffle(
                [x[T.Ramp(0, 1, 4)], x[T.Ramp(4, 1, 4)]], [0, 4, 1, 5, 2, 6, 3, 7]
            )

    check(JoinedStores(), _stores(), expected)


@pytest.mark.parametrize("other", [{"second": 3}, {"stride": 1}, {"lanes": 2}], ids=str)
def test_other_stores_stay(other: dict[str, int]):
    check_same(JoinedStores(), _stores(**other))


def test_stores_of_two_buffers_stay():
    @T.prim_func(private=True, s_tir=True)
    def two(
        x: T.Buffer((4,), "float32"), y: T.Buffer((8,), "float32"), z: T.Buffer((9,), "float32")
    ):
        y[T.Ramp(0, 2, 4)] = x[T.Ramp(0, 1, 4)]
        z[T.Ramp(1, 2, 4)] = x[T.Ramp(0, 1, 4)]

    check_same(JoinedStores(), two)
