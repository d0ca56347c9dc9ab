"""Loops over rows of a kernel that begin and end where rows are inside the image."""

from __future__ import annotations

import pytest
from tvm import ir, sym, tirx
from tvm.script import tirx as T

from tests.tir.general.test_specialize import rows_of_taps
from tests.tir.rewrites import check
from tvmconv.tir.general.rewrite import substitute
from tvmconv.tir.general.specialize import Specialize
from tvmconv.tir.general.taps import bounds_of

KERNEL, ROWS = 3, 8


def test_a_range_of_rows_has_bounds_in_place_of_tests():
    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8, 4), "float32"),
        w: T.Buffer((3, 4), "float32"),
        y: T.Buffer((8, 4), "float32"),
    ):
        for h in range(8):
            for r in range(T.min(3, 9 - h) - T.max(0, 1 - h)):
                for v in T.vectorized(4):
                    y[h, v] = (
                        y[h, v] + x[T.max(0, 1 - h) + h + r - 1, v] * w[T.max(0, 1 - h) + r, v]
                    )

    check(Specialize(), rows_of_taps("range"), expected)


@pytest.mark.parametrize("stride, dilation, pad", [(1, 1, 1), (2, 1, 1), (3, 2, 2), (1, 3, 4)])
def test_bounds_are_those_of_the_rows_inside(stride, dilation, pad):
    """Also where steps do not divide the distance to the border, or no row is inside."""
    h, r = (ir.Var(name, ir.PrimType("int32")) for name in "hr")
    place = h * stride + r * dilation
    guards = [
        tirx.LE(tirx.IntImm("int32", pad), place),
        tirx.GT(tirx.IntImm("int32", ROWS + pad), place),
        tirx.LT(h, tirx.IntImm("int32", 100)),
    ]
    ends, left = bounds_of(guards, r, 0, KERNEL)
    assert [guard.same_as(guards[2]) for guard in left] == [True]
    for row in range((ROWS + 2 * pad) // stride):
        first, last = (int(sym.Analyzer().simplify(substitute(end, {h: row}))) for end in ends)
        inside = [k for k in range(KERNEL) if 0 <= row * stride + k * dilation - pad < ROWS]
        assert list(range(first, last)) == inside
