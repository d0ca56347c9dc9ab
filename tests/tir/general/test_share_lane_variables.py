"""One variable for all SIMD loops of one length."""

from __future__ import annotations

import tvm
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.rewrite import substitute, transformed
from tvmconv.tir.general.share_lane_variables import ShareLaneVariables


@T.prim_func(private=True, s_tir=True)
def copies(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i in T.vectorized(8):
        y[i] = x[i]
    for j in T.vectorized(8):
        y[j] = y[j] + x[j]
    for k in T.vectorized(4):
        y[k] = x[k]
    for serial in range(8):
        y[serial] = y[serial] * x[serial]


def test_loops_of_one_length_have_one_variable():
    shared = transformed(copies, ShareLaneVariables())
    first, second, shorter, serial = (loop.loop_var for loop in shared.body.seq)
    assert first.same_as(second)
    assert not any(first.same_as(var) for var in (shorter, serial))


def test_the_later_variable_becomes_the_earlier_one():
    first, second, *_ = (loop.loop_var for loop in copies.body.seq)
    expected = copies.with_body(substitute(copies.body, {second: first}))
    check(ShareLaneVariables(), copies, expected)


def test_nothing_else_changes():
    """With a variable for each loop again, the functions are equal."""
    shared = transformed(copies, ShareLaneVariables())
    apart = transformed(shared, tvm.tirx.transform.ConvertSSA())
    tvm.ir.assert_structural_equal(apart, copies)


def test_loops_of_different_lengths_keep_theirs():
    @T.prim_func(private=True, s_tir=True)
    def different(y: T.Buffer((8,), "float32")):
        for i in T.vectorized(8):
            y[i] = T.float32(0)
        for i in T.vectorized(4):
            y[i] = T.float32(1)

    check_same(ShareLaneVariables(), different)
    assert transformed(different, ShareLaneVariables()).same_as(different)
