"""Loop nests over as few axes as their accesses allow."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import te
from tvm.script import tirx as T

from tvmconv.tir.general.collapse_axes import collapse_axes


def _check(func: Any, expected: Any) -> None:
    found, wanted = (f.without_attr("global_symbol") for f in (collapse_axes(func), expected))
    tvm.ir.assert_structural_equal(found, wanted)


def test_axes_that_all_accesses_follow_become_one():
    x = te.placeholder((2, 3, 4), name="x")
    doubled = te.compute((2, 3, 4), lambda i, j, k: x[i, j, k] + x[i, j, k], name="doubled")

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((2, 3, 4), "float32"), y: T.Buffer((2, 3, 4), "float32")):
        T.func_attr({"tirx.noalias": True})
        x_1 = x.view(24)
        y_1 = y.view(24)
        for i in range(24):
            with T.sblock("doubled"):
                v_i = T.axis.spatial(24, i)
                y_1[v_i] = x_1[v_i] + x_1[v_i]

    _check(te.create_prim_func([x, doubled]), expected)


def test_a_transposed_axis_stays_an_axis():
    x = te.placeholder((4, 2, 3), name="x")
    moved = te.compute((2, 3, 4), lambda i, j, k: x[k, i, j], name="moved")

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((4, 2, 3), "float32"), y: T.Buffer((2, 3, 4), "float32")):
        T.func_attr({"tirx.noalias": True})
        x_1 = x.view(4, 6)
        y_1 = y.view(6, 4)
        for i, j in T.grid(6, 4):
            with T.sblock("moved"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y_1[v_i, v_j] = x_1[v_j, v_i]

    _check(te.create_prim_func([x, moved]), expected)


def test_an_index_may_use_another_axis_next_to_a_joined_one():
    x = te.placeholder((11, 2), name="x")
    frames = te.compute((4, 5, 2), lambda i, j, k: x[i * 2 + j, k], name="frames")

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((11, 2), "float32"), y: T.Buffer((4, 5, 2), "float32")):
        T.func_attr({"tirx.noalias": True})
        x_1 = x.view(22)
        y_1 = y.view(4, 10)
        for i, j in T.grid(4, 10):
            with T.sblock("frames"):
                v_i, v_j = T.axis.remap("SS", [i, j])
                y_1[v_i, v_j] = x_1[v_j + v_i * 2 * 2]

    _check(te.create_prim_func([x, frames]), expected)
