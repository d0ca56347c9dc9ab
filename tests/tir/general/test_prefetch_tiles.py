"""Prefetches of weights: reductions in parts, and lanes that select their values."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, fetch
from tvmconv.tir.general.specialize import Specialize


def test_weights_of_the_next_part_of_a_reduction_are_prefetched():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((4, 8, 4), "float32"),
        w: T.Buffer((2, 4, 4, 1, 8), "float32"),
        y: T.Buffer((2, 8, 8), "float32"),
    ):
        for k, p, t, cb in T.grid(2, 2, 2, 2):
            for c in T.serial(4, annotations={"tvmconv.prefetch": [0, 1]}):
                for i in T.unroll(4):
                    for v in T.vectorized(8):
                        y[k, t * 4 + i, v] = (
                            y[k, t * 4 + i, v]
                            + x[p * 2 + cb, t * 4 + i, c] * w[k, p * 2 + cb, c, 0, v]
                        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((4, 8, 4), "float32"),
        w: T.Buffer((2, 4, 4, 1, 8), "float32"),
        y: T.Buffer((2, 8, 8), "float32"),
    ):
        for k, p, t, cb, c in T.grid(2, 2, 2, 2, 4):
            fetch(w[k, 0, 0, 0, p * 64 + cb * 32 + c * 8 + 64], 2)
            for i in T.unroll(4):
                for v in T.vectorized(8):
                    y[k, t * 4 + i, v] = (
                        y[k, t * 4 + i, v] + x[p * 2 + cb, t * 4 + i, c] * w[k, p * 2 + cb, c, 0, v]
                    )

    check(Specialize(), before, expected)


def test_weights_of_lanes_that_select_their_values_are_prefetched():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((8, 8, 4), "float32"),
        w: T.Buffer((2, 4, 4, 1, 8), "float32"),
        y: T.Buffer((2, 8, 8), "float32"),
    ):
        for k, t, cb in T.grid(2, 2, 4):
            for c in T.serial(4, annotations={"tvmconv.prefetch": [1, 1]}):
                for i in T.unroll(4):
                    for v in T.vectorized(8):
                        y[k, t * 4 + i, v] = (
                            y[k, t * 4 + i, v]
                            + T.Select(v < 5, x[cb, t * 4 + i, c], x[cb + 4, t * 4 + i, c])
                            * w[k, cb, c, 0, v]
                        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8, 8, 4), "float32"),
        w: T.Buffer((2, 4, 4, 1, 8), "float32"),
        y: T.Buffer((2, 8, 8), "float32"),
    ):
        for k, t, cb, c in T.grid(2, 2, 4, 4):
            fetch(w[k + 1, 0, 0, 0, cb * 32 + c * 8], 2)
            for i in T.unroll(4):
                for v in T.vectorized(8):
                    y[k, t * 4 + i, v] = (
                        y[k, t * 4 + i, v]
                        + T.Select(v < 5, x[cb, t * 4 + i, c], x[cb + 4, t * 4 + i, c])
                        * w[k, cb, c, 0, v]
                    )

    check(Specialize(), before, expected)
