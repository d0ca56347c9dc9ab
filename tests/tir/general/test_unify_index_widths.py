"""Sums of a 32-bit and a 64-bit integer."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.rewrite import substitute
from tvmconv.tir.general.unify_index_widths import UnifyIndexWidths


def test_the_narrow_side_is_widened():
    @T.prim_func(private=True, s_tir=True)
    def gather(x: T.Buffer((9,), "float32"), y: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(0), T.int64(8)):
            for j in T.serial(T.int64(0), T.int64(1)):
                y[i] = x[i + (j + T.int64(1))]

    # TVM's constructors refuse such a sum; it comes about where a variable is replaced
    start = tirx.IntImm("int32", 0)
    loop = gather.body
    body = substitute(loop.body.body, {loop.body.loop_var: start})
    before = gather.with_body(
        tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations={})
    )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((9,), "float32"), y: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(0), T.int64(8)):
            y[i] = x[i + (T.Cast("int64", T.int32(0)) + T.Cast("int64", T.int64(1)))]

    check(UnifyIndexWidths(), before, expected)


def test_sums_of_one_width_stay():
    @T.prim_func(private=True, s_tir=True)
    def wide(x: T.Buffer((9,), "float32"), y: T.Buffer((8,), "float32")):
        for i in T.serial(T.int64(0), T.int64(8)):
            y[i] = x[i + T.int64(1)]

    check_same(UnifyIndexWidths(), wide)
