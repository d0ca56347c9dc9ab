"""Blocks cut where a condition on an axis changes its outcome."""

from __future__ import annotations

import tvm
from tvm import te, tirx
from tvm.script import tirx as T

from tvmconv.operators.math import exp, tanh
from tvmconv.tir.general.cut_axes import cut_axes


def test_a_padded_copy_becomes_a_copy_and_a_block_of_zeros():
    x = te.placeholder((2, 4), name="x")
    padded = te.compute((2, 6), lambda i, j: tirx.if_then_else(j < 4, x[i, j], 0.0), name="padded")

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((2, 4), "float32"), y: T.Buffer((2, 6), "float32")):
        T.func_attr({"tirx.noalias": True})
        for i, j in T.grid(2, 4):
            with T.sblock("padded"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j] = x[v_i, v_j]
        for i, j in T.grid(2, 2):
            with T.sblock("padded"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y[v_i, v_j + 4] = T.float32(0)

    func = te.create_prim_func([x, padded])
    tvm.ir.assert_structural_equal(
        cut_axes(func).without_attr("global_symbol"), expected.without_attr("global_symbol")
    )


def test_a_condition_on_two_axes_stays():
    x = te.placeholder((4, 4), name="x")
    lower = te.compute((4, 4), lambda i, j: tirx.if_then_else(j < i, x[i, j], 0.0))
    func = te.create_prim_func([x, lower])
    assert cut_axes(func).same_as(func)


def test_functions_of_one_buffer_are_blocks_of_their_own():
    x = te.placeholder((2, 4), name="x")

    def joined(first, second):
        choice = te.compute(
            (2, 8),
            lambda i, j: tirx.if_then_else(j < 4, first(x[i, j]), second(x[i, j - 4])),
        )
        return te.create_prim_func([x, choice])

    assert len(tirx.stmt_list(cut_axes(joined(exp, tanh)).body.block.body)) == 2
    copies = joined(lambda v: v, lambda v: v)
    assert cut_axes(copies).same_as(copies)


def test_windows_of_neighbors_stay():
    x = te.placeholder((8,), name="x")
    pairs = te.compute((8,), lambda i: x[i] + tirx.if_then_else(i < 7, x[i + 1], 0.0))
    func = te.create_prim_func([x, pairs])
    assert cut_axes(func).same_as(func)
