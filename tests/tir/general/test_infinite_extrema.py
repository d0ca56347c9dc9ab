"""Maxima that begin with minus infinity, and padding that no value loses to."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.infinite_extrema import InfiniteExtrema


def largest(first: float):
    @T.prim_func(private=True, s_tir=True)
    def func(x: T.Buffer((4, 8), "float32"), y: T.Buffer((4,), "float32")):
        for i, k in T.grid(4, 8):
            with T.sblock("largest"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi] = T.float32(first)
                y[vi] = T.max(y[vi], x[vi, vk])

    return func


LOWEST = -3.4028234663852886e38


def test_a_maximum_begins_with_an_infinity():
    check(InfiniteExtrema(), largest(LOWEST), largest(float("-inf")))


def test_other_first_values_stay():
    check_same(InfiniteExtrema(), largest(0.0))
