"""The last, shorter vector of a loop."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.vector_tails import VectorTails


def test_the_last_vector_is_shorter():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((11,), "float32"), y: T.Buffer((11,), "float32")):
        for i in T.serial(3, annotations={"tvmconv.tail": [4, 3]}):
            for v in T.vectorized(4):
                if i * 4 + v < 11:
                    y[i * 4 + v] = x[i * 4 + v] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((11,), "float32"), y: T.Buffer((11,), "float32")):
        for i in range(2):
            for v in T.vectorized(4):
                y[i * 4 + v] = x[i * 4 + v] + T.float32(1)
        for v in T.vectorized(3):
            y[v + 8] = x[v + 8] + T.float32(1)

    check(VectorTails(), before, expected)


def test_the_last_vector_may_begin_in_the_vector_before_it():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((11,), "float32"), y: T.Buffer((11,), "float32")):
        for i in T.serial(3, annotations={"tvmconv.tail": [4, 3, 1]}):
            for v in T.vectorized(4):
                if i * 4 + v < 11:
                    y[i * 4 + v] = x[i * 4 + v] + T.float32(1)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((11,), "float32"), y: T.Buffer((11,), "float32")):
        for i in range(2):
            for v in T.vectorized(4):
                y[i * 4 + v] = x[i * 4 + v] + T.float32(1)
        for v in T.vectorized(4):
            y[v + 7] = x[v + 7] + T.float32(1)

    check(VectorTails(), before, expected)


def test_one_element_is_no_vector():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((9,), "float32"), y: T.Buffer((9,), "float32")):
        for i in T.serial(3, annotations={"tvmconv.tail": [4, 1]}):
            for v in T.vectorized(4):
                if i * 4 + v < 9:
                    y[i * 4 + v] = x[i * 4 + v]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((9,), "float32"), y: T.Buffer((9,), "float32")):
        for i in range(2):
            for v in T.vectorized(4):
                y[i * 4 + v] = x[i * 4 + v]
        for _v in range(1):
            y[8] = x[8]

    check(VectorTails(), before, expected)


def test_vectors_of_another_length_stay_whole():
    """Only the loops that the annotation's width belongs to are cut."""

    @T.prim_func(private=True, s_tir=True)
    def before(y: T.Buffer((7, 8), "float32")):
        for i in T.serial(2, annotations={"tvmconv.tail": [4, 3]}):
            for r in T.unroll(4):
                for v in T.vectorized(8):
                    y[i * 3 + r, v] = T.float32(0)

    @T.prim_func(private=True, s_tir=True)
    def expected(y: T.Buffer((7, 8), "float32")):
        for _i in range(1):
            for r in T.unroll(4):
                for v in T.vectorized(8):
                    y[r, v] = T.float32(0)
        for r in T.unroll(4):
            for v in T.vectorized(8):
                y[r + 3, v] = T.float32(0)

    check(VectorTails(), before, expected)


def test_loops_without_the_annotation_keep_their_test():
    @T.prim_func(private=True, s_tir=True)
    def guarded(x: T.Buffer((11,), "float32"), y: T.Buffer((11,), "float32")):
        for i in range(3):
            for v in T.vectorized(4):
                if i * 4 + v < 11:
                    y[i * 4 + v] = x[i * 4 + v]

    check_same(VectorTails(), guarded)
