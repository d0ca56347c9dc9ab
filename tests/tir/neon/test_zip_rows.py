"""Bytes of several rows as dwords, for four columns at once."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, operator
from tvmconv.tir.neon.zip_rows import ZipRows


def column(x: Any, place: int) -> Any:
    """Dwords of two rows and zeros."""
    rows = [tirx.BufferLoad(x, [tirx.Ramp(at, 1, 4)]) for at in (place, 32 + place)]
    zeros = tirx.Broadcast(tirx.const(0, "int8"), 4)
    return operator("int32x4", "side_by_side_4", *rows, zeros)


def interleaved(one: Any, other: Any, lanes: int, upper: int) -> Any:
    """``zip1`` or ``zip2``."""
    first = upper * lanes // 2
    order = [at for i in range(first, first + lanes // 2) for at in (i, i + lanes)]
    return tirx.Shuffle([one, other], order)


def zipped(x: Any, number: int) -> Any:
    """The dwords of one of four columns; the row that is missing repeats the first one."""
    rows = [tirx.BufferLoad(x, [tirx.Ramp(at, 1, 16)]) for at in (0, 32)]
    rows = [*rows, tirx.Broadcast(tirx.const(0, "int8"), 16), rows[0]]
    pairs = [
        tirx.reinterpret("int16x8", interleaved(rows[i], rows[i + 1], 16, number // 2))
        for i in (0, 2)
    ]
    return tirx.reinterpret("int32x4", interleaved(*pairs, 8, number % 2))


def test_four_columns_are_interleaved():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "int8"), y: T.Buffer((4,), "int32x4")):
        y[0] = column(x, 0)
        y[1] = column(x, 4)
        y[2] = column(x, 8)
        y[3] = column(x, 12)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "int8"), y: T.Buffer((4,), "int32x4")):
        y[0] = zipped(x, 0)
        y[1] = zipped(x, 1)
        y[2] = zipped(x, 2)
        y[3] = zipped(x, 3)

    check(ZipRows(), before, expected)


def test_fewer_columns_stay():
    @T.prim_func(private=True, s_tir=True)
    def three(x: T.Buffer((64,), "int8"), y: T.Buffer((3,), "int32x4")):
        y[0] = column(x, 0)
        y[1] = column(x, 4)
        y[2] = column(x, 8)

    check_same(ZipRows(), three)


def test_rows_that_a_store_writes_stay():
    @T.prim_func(private=True, s_tir=True)
    def written(x: T.Buffer((64,), "int8"), y: T.Buffer((4,), "int32x4")):
        y[0] = column(x, 0)
        y[1] = column(x, 4)
        y[2] = column(x, 8)
        y[3] = column(x, 12)
        x[0] = T.int8(1)

    check_same(ZipRows(), written)
