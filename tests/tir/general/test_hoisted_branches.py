"""Branches outside of the loops that do not decide them."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.hoisted_branches import HoistedBranches


def test_a_branch_leaves_the_loop_that_does_not_decide_it():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(2):
            for j in range(4):
                if i < 1:
                    y[i * 4 + j] = x[i * 4 + j]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(2):
            if i < 1:
                for j in range(4):
                    y[i * 4 + j] = x[i * 4 + j]

    check(HoistedBranches(), before, expected)


def test_a_function_without_branches_stays():
    @T.prim_func(private=True, s_tir=True)
    def plain(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(8):
            y[i] = x[i]

    check_same(HoistedBranches(), plain)
