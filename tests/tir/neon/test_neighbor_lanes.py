"""Dwords of neighboring pixels as lanes of one vector."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, operator
from tvmconv.tir.neon.neighbor_lanes import NeighborLanes


def product(data: Any, w: Any) -> Any:
    """The dot products of four outputs."""
    weight = operator("int32x4", "word", tirx.BufferLoad(w, [tirx.Ramp(0, 4, 4)]))
    return operator("int32x4", "dot_sdot", data, weight)


def spread(x: Any, place: Any) -> Any:
    """A dword in all lanes."""
    return tirx.Broadcast(operator("int32", "word", tirx.BufferLoad(x, [place])), 4)


def lane(x: Any, place: Any, number: int) -> Any:
    """The lane of a vector that begins at a place, in all lanes."""
    vector = operator("int32x4", "word", tirx.BufferLoad(x, [tirx.Ramp(place, 4, 4)]))
    return tirx.Shuffle([vector], [number] * 4)


def test_neighbors_are_lanes():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((64,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32x4")
    ):
        for i in range(2):
            y[0] = y[0] + product(spread(x, i * 32), w)
            y[1] = y[1] + product(spread(x, i * 32 + 4), w)
            y[2] = y[2] + product(spread(x, i * 32 + 8), w)
            y[3] = y[3] + product(spread(x, i * 32 + 12), w)

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((64,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32x4")
    ):
        for i in range(2):
            y[0] = y[0] + product(lane(x, i * 32, 0), w)
            y[1] = y[1] + product(lane(x, i * 32 + 4 + -4, 1), w)
            y[2] = y[2] + product(lane(x, i * 32 + 8 + -8, 2), w)
            y[3] = y[3] + product(lane(x, i * 32 + 12 + -12, 3), w)

    check(NeighborLanes(), before, expected)


def _pair(last: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def pair(x: T.Buffer((64,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32x4")):
        y[0] = y[0] + product(spread(x, 0), w)
        y[1] = y[1] + product(spread(x, last), w)

    return pair


@pytest.mark.parametrize("last", [4, 8, 16])
def test_too_few_neighbors_stay(last: int):
    check_same(NeighborLanes(), _pair(last))


def test_a_loop_between_stores_ends_a_run():
    @T.prim_func(private=True, s_tir=True)
    def parted(
        x: T.Buffer((64,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32x4")
    ):
        y[0] = y[0] + product(spread(x, 0), w)
        y[1] = y[1] + product(spread(x, 4), w)
        for i in range(2):
            y[i] = y[i] + y[i]
        y[2] = y[2] + product(spread(x, 8), w)
        y[3] = y[3] + product(spread(x, 12), w)

    check_same(NeighborLanes(), parted)


def test_a_buffer_that_a_store_writes_stays():
    @T.prim_func(private=True, s_tir=True)
    def written(
        x: T.Buffer((64,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32x4")
    ):
        y[0] = y[0] + product(spread(x, 0), w)
        y[1] = y[1] + product(spread(x, 4), w)
        y[2] = y[2] + product(spread(x, 8), w)
        y[3] = y[3] + product(spread(x, 12), w)
        x[12] = T.int8(1)

    check_same(NeighborLanes(), written)
