"""Lanes of partial results, combined in a tree."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same
from tvmconv.tir.general.combine_lanes import CombineLanes


def ramp(first: int, lanes: int):
    return tirx.Ramp(tirx.IntImm("int32", first), tirx.IntImm("int32", 1), lanes)


def test_four_lanes_take_two_steps():
    @T.prim_func(private=True, s_tir=True)
    def before(parts: T.Buffer((3, 4), "float32"), y: T.Buffer((3,), "float32")):
        for lane in T.serial(4, annotations={"tvmconv.combine": 1}):
            y[2] = T.max(y[2], parts[1, lane])

    parts, y = before.params
    statements = []

    def keep(value, lanes):
        buffer = tirx.decl_buffer((lanes,), "float32", "lanes", scope="local", layout=None)
        statements.append(tirx.AllocBuffer(buffer))
        statements.append(tirx.BufferStore(buffer, value, [ramp(0, lanes)]))
        return buffer

    four = keep(tirx.BufferLoad(parts, [1, ramp(0, 4)]), 4)
    halves = (tirx.BufferLoad(four, [ramp(first, 2)]) for first in (0, 2))
    two = keep(tirx.Max(*halves), 2)
    last = tirx.Max(tirx.BufferLoad(two, [0]), tirx.BufferLoad(two, [1]))
    statements.append(tirx.BufferStore(y, tirx.Max(tirx.BufferLoad(y, [2]), last), [2]))
    check(CombineLanes(), before, before.with_body(tirx.SeqStmt(statements)))


def test_lanes_that_are_not_neighbors_stay_a_loop():
    @T.prim_func(private=True, s_tir=True)
    def before(parts: T.Buffer((4, 3), "float32"), y: T.Buffer((3,), "float32")):
        for lane in T.serial(4, annotations={"tvmconv.combine": 1}):
            y[2] = y[2] + parts[lane, 1]

    @T.prim_func(private=True, s_tir=True)
    def expected(parts: T.Buffer((4, 3), "float32"), y: T.Buffer((3,), "float32")):
        for lane in T.serial(4):
            y[2] = y[2] + parts[lane, 1]

    check(CombineLanes(), before, expected)
    check_same(CombineLanes(), expected)
