"""The prefetch of what a register tile adds to."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, fetch
from tvmconv.tir.general.prefetch_results import PrefetchResults


def test_each_vector_of_the_result_is_asked_for_before_the_reduction():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8, 4, 64), "float32"), y: T.Buffer((8, 4, 8), "float32")):
        for t in T.serial(8, annotations={"tvmconv.result": 1}):
            acc = T.alloc_buffer((4, 8), "float32", scope="local")
            for c in range(64):
                for i in T.unroll(4):
                    for v in T.vectorized(8):
                        acc[i, v] = acc[i, v] + x[t, i, c]
            for i in T.unroll(4):
                for v in T.vectorized(8):
                    y[t, i, v] = y[t, i, v] + acc[i, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8, 4, 64), "float32"), y: T.Buffer((8, 4, 8), "float32")):
        for t in range(8):
            acc = T.alloc_buffer((4, 8), "float32", scope="local")
            for i in T.unroll(4):
                fetch(y[t, i, 0], 3, write=True)
            for c in range(64):
                for i in T.unroll(4):
                    for v in T.vectorized(8):
                        acc[i, v] = acc[i, v] + x[t, i, c]
            for i in T.unroll(4):
                for v in T.vectorized(8):
                    y[t, i, v] = y[t, i, v] + acc[i, v]

    check(PrefetchResults(), before, expected)


def test_values_that_stay_in_registers_are_not_asked_for():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8, 64), "float32")):
        for t in T.serial(8, annotations={"tvmconv.result": 1}):
            acc = T.alloc_buffer((8,), "float32", scope="local")
            for c in range(64):
                acc[0] = acc[0] + x[t, c]
            for v in T.vectorized(8):
                acc[v] = acc[v] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8, 64), "float32")):
        for t in range(8):
            acc = T.alloc_buffer((8,), "float32", scope="local")
            for c in range(64):
                acc[0] = acc[0] + x[t, c]
            for v in T.vectorized(8):
                acc[v] = acc[v] + T.float32(1)

    check(PrefetchResults(), before, expected)


def test_without_a_reduction_nothing_is_prefetched():
    @T.prim_func(private=True, s_tir=True)
    def before(y: T.Buffer((8, 8), "float32")):
        for t in T.serial(8, annotations={"tvmconv.result": 1}):
            for v in T.vectorized(8):
                y[t, v] = y[t, v] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def expected(y: T.Buffer((8, 8), "float32")):
        for t in range(8):
            for v in T.vectorized(8):
                y[t, v] = y[t, v] + T.float32(1)

    check(PrefetchResults(), before, expected)


def test_short_vectors_share_the_prefetches_of_their_lines_and_of_what_is_added_to_them():
    """12 vectors of 8 bytes: from elements 0 to 63, from 64 on, and from the last line."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        r: T.Buffer((8, 12, 8), "uint8"),
        x: T.Buffer((8, 64), "uint8"),
        y: T.Buffer((8, 12, 8), "uint8"),
    ):
        for t in T.serial(8, annotations={"tvmconv.result": 1}):
            acc = T.alloc_buffer((12, 8), "uint8", scope="local")
            for _ in T.unroll(1):
                for c in range(64):
                    for i in T.unroll(12):
                        for v in T.vectorized(8):
                            acc[i, v] = acc[i, v] + x[t, c]
            for i in T.unroll(12):
                for v in T.vectorized(8):
                    y[t, i, v] = acc[i, v] + r[t, i, v] + x[t, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(
        r: T.Buffer((8, 12, 8), "uint8"),
        x: T.Buffer((8, 64), "uint8"),
        y: T.Buffer((8, 12, 8), "uint8"),
    ):
        for t in range(8):
            acc = T.alloc_buffer((12, 8), "uint8", scope="local")
            for i in T.unroll(3):
                fetch(y[t, T.min(i * 8, 11), 0], 3, write=True)
                fetch(r[t, T.min(i * 8, 11), 0], 3)
            for _ in T.unroll(1):
                for c in range(64):
                    for i in T.unroll(12):
                        for v in T.vectorized(8):
                            acc[i, v] = acc[i, v] + x[t, c]
            for i in T.unroll(12):
                for v in T.vectorized(8):
                    y[t, i, v] = acc[i, v] + r[t, i, v] + x[t, v]

    check(PrefetchResults(), before, expected)
