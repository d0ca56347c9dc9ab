"""Copies that are made by the first tile that reads them."""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check
from tvmconv.tir.general.copy_on_first_use import CopyOnFirstUse
from tvmconv.tir.general.rewrite import transformed


def test_the_first_tile_makes_the_copy():
    @T.prim_func(private=True, s_tir=True)
    def before(
        w: T.Buffer((3, 4, 2), "int8"), x: T.Buffer((9, 3, 4), "int16"), y: T.Buffer((9, 2))
    ):
        wide = T.alloc_buffer((3, 4, 2), "int16")
        for r in range(3):
            for c in T.serial(4, annotations={"tvmconv.first_use": 1}):
                for k in T.vectorized(2):
                    wide[r, c, k] = T.Cast("int16", w[r, c, k])
        for row in range(3):
            for tile in range(3):
                for s in range(3):
                    for d in range(4):
                        for k in T.vectorized(2):
                            y[row * 3 + tile, k] = y[row * 3 + tile, k] + T.Cast(
                                "float32", x[row * 3 + tile, s, d] * wide[s, d, k]
                            )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        w: T.Buffer((3, 4, 2), "int8"), x: T.Buffer((9, 3, 4), "int16"), y: T.Buffer((9, 2))
    ):
        wide = T.alloc_buffer((3, 4, 2), "int16")
        for s in range(3):
            for d in range(4):
                for k in T.vectorized(2):
                    wide[s, d, k] = T.Cast("int16", w[s, d, k])
                for k in T.vectorized(2):
                    y[0, k] = y[0, k] + T.Cast("float32", x[0, s, d] * wide[s, d, k])
        for tile in range(2):
            for s in range(3):
                for d in range(4):
                    for k in T.vectorized(2):
                        y[tile + 1, k] = y[tile + 1, k] + T.Cast(
                            "float32", x[tile + 1, s, d] * wide[s, d, k]
                        )
        for row in range(2):
            for tile in range(3):
                for s in range(3):
                    for d in range(4):
                        for k in T.vectorized(2):
                            y[(row + 1) * 3 + tile, k] = y[(row + 1) * 3 + tile, k] + T.Cast(
                                "float32", x[(row + 1) * 3 + tile, s, d] * wide[s, d, k]
                            )

    # duplicated variables get definitions of their own, as in the pipeline
    unique, simple = tirx.transform.ConvertSSA(), tirx.transform.StmtSimplify()
    rewrite = tvm.ir.transform.Sequential([CopyOnFirstUse(), unique, simple])
    check(rewrite, before, transformed(expected, simple))


def test_a_copy_that_the_first_tile_reads_in_part_is_made_before():
    @T.prim_func(private=True, s_tir=True)
    def before(w: T.Buffer((4, 2), "int8"), y: T.Buffer((9, 2), "int16")):
        wide = T.alloc_buffer((4, 2), "int16")
        for c in T.serial(4, annotations={"tvmconv.first_use": 1}):
            for k in T.vectorized(2):
                wide[c, k] = T.Cast("int16", w[c, k])
        for tile in range(9):
            for d in range(3):
                for k in T.vectorized(2):
                    y[tile, k] = y[tile, k] + wide[d, k]

    @T.prim_func(private=True, s_tir=True)
    def expected(w: T.Buffer((4, 2), "int8"), y: T.Buffer((9, 2), "int16")):
        wide = T.alloc_buffer((4, 2), "int16")
        for c in range(4):
            for k in T.vectorized(2):
                wide[c, k] = T.Cast("int16", w[c, k])
        for tile in range(9):
            for d in range(3):
                for k in T.vectorized(2):
                    y[tile, k] = y[tile, k] + wide[d, k]

    check(CopyOnFirstUse(), before, expected)
