"""Sums that begin with their first term: where, and where they must not."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.neon.first_terms import FirstTerms


@T.prim_func(private=True, s_tir=True)
def two_sums(x: T.Buffer((8,), "float32"), y: T.Buffer((2,), "float32")):
    sums = T.alloc_buffer((2,), "float32", scope="local")
    sums[0] = T.float32(0)
    sums[1] = T.float32(0)
    sums[1] = sums[1] + x[0] * x[1]
    sums[0] = sums[0] + x[2] * x[3]
    sums[1] = sums[1] + x[4] * x[5]
    y[0] = sums[0]
    y[1] = sums[1]


def test_a_sum_begins_with_its_first_term():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((2,), "float32")):
        sums = T.alloc_buffer((2,), "float32", scope="local")
        sums[1] = x[0] * x[1]
        sums[0] = x[2] * x[3]
        sums[1] = sums[1] + x[4] * x[5]
        y[0] = sums[0]
        y[1] = sums[1]

    check(FirstTerms(), two_sums, expected)


def test_zeros_that_something_else_reads_stay():
    @T.prim_func(private=True, s_tir=True)
    def read(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        sums = T.alloc_buffer((3,), "float32", scope="local")
        sums[0] = T.float32(0)
        sums[1] = T.float32(0)
        sums[2] = T.float32(0)
        sums[1] = sums[1] + sums[0]  # the sum begins with it, and it is read
        sums[0] = sums[0] + x[0]
        y[0] = sums[0]
        for i in range(8):
            sums[2] = sums[2] + x[i]  # only the first time
        y[1] = sums[2] + sums[1]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        sums = T.alloc_buffer((3,), "float32", scope="local")
        sums[0] = T.float32(0)
        sums[2] = T.float32(0)
        sums[1] = sums[0]
        sums[0] = sums[0] + x[0]
        y[0] = sums[0]
        for i in range(8):
            sums[2] = sums[2] + x[i]
        y[1] = sums[2] + sums[1]

    check(FirstTerms(), read, expected)


def test_any_element_may_be_one_of_those():
    @T.prim_func(private=True, s_tir=True)
    def indexed(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32"), i: T.int32):
        sums = T.alloc_buffer((2,), "float32", scope="local")
        sums[0] = T.float32(0)
        y[0] = sums[i]
        sums[0] = sums[0] + x[0]
        y[1] = sums[0]
        sums[1] = T.float32(0)
        sums[i] = x[1]
        sums[1] = sums[1] + x[2]
        y[2] = sums[1]

    check_same(FirstTerms(), indexed)


def test_results_in_memory_and_integers_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "int32"), y: T.Buffer((2,), "float32")):
        count = T.alloc_buffer((1,), "int32", scope="local")
        count[0] = 0
        count[0] = count[0] + x[0]
        y[0] = T.float32(0)
        y[0] = y[0] + T.Cast("float32", count[0])

    check_same(FirstTerms(), others)
