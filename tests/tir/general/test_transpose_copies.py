"""Copies between two directions of vectors: the values, and the instructions."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from tests.assembly import assembly
from tests.tir.rewrites import check
from tvmconv.machines.x86 import MACHINES
from tvmconv.tir.annotations import TRANSPOSE_LANES, mark_transpose
from tvmconv.tir.general.transpose_copies import TransposeCopies
from tvmconv.tir.pipeline import compile_function

V3 = MACHINES["x86-64-v3"]


def transposed(rows, columns, *, along_source=True, marked=True):
    """``B[a, i, j] = A[a, j, i]``, compiled for AVX2, vectors along either side's columns."""
    source = te.placeholder((5, columns, rows), name="source")
    copy = te.compute((5, rows, columns), lambda a, i, j: source[a, j, i], name="copy")
    schedule = Schedule(te.create_prim_func([source, copy]))
    _, i, j = schedule.get_loops(schedule.get_sblock("copy"))
    outer, inner = (j, i) if along_source else (i, j)
    schedule.reorder(outer, inner)
    schedule.vectorize(inner)
    if marked:
        mark_transpose(schedule, outer)
    return compile_function(schedule.mod["main"], V3)


def test_a_square_is_two_steps_of_shuffles():
    """4x4: the first two rows are interleaved with the last two, twice."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for j in T.serial(4, annotations={"tvmconv.transpose": 1}):
            for i in T.vectorized(4):
                y[j, i] = x[i, j]

    x, y = (before.params[n] for n in range(2))
    statements = []

    def ramp(first):
        return tirx.Ramp(tirx.IntImm("int32", first), tirx.IntImm("int32", 1), 4)

    def keep(value):
        buffer = tirx.decl_buffer((4,), "float32", "square", scope="local", layout=None)
        statements.append(tirx.AllocBuffer(buffer))
        statements.append(tirx.BufferStore(buffer, value, [ramp(0)]))
        return tirx.BufferLoad(buffer, [ramp(0)])

    def shuffle(a, b, picks):
        return keep(tirx.Shuffle([a, b], picks))

    rows = [keep(tirx.BufferLoad(x, [line, ramp(0)])) for line in range(4)]
    columns = rows
    for _ in range(2):
        pairs = zip(columns[:2], columns[2:], strict=True)
        columns = [
            shuffle(*pair, picks) for pair in pairs for picks in ([0, 4, 1, 5], [2, 6, 3, 7])
        ]
    statements += [tirx.BufferStore(y, column, [n, ramp(0)]) for n, column in enumerate(columns)]
    check(TransposeCopies(), before, before.with_body(tirx.SeqStmt(statements)))


def test_a_copy_along_one_side_is_left_to_the_vectorizer():
    """Source and destination are contiguous along the same loop."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for j in T.serial(4, annotations={"tvmconv.transpose": 1}):
            for i in T.vectorized(4):
                y[j, i] = x[j, i]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for j in range(4):
            for i in T.vectorized(4):
                y[j, i] = x[j, i]

    check(TransposeCopies(), before, expected)


def test_what_is_computed_on_the_way_is_no_copy():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for j in T.serial(4, annotations={"tvmconv.transpose": 1}):
            for i in T.vectorized(4):
                y[j, i] = x[i, j] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4, 4), "float32"), y: T.Buffer((4, 4), "float32")):
        for j in range(4):
            for i in T.vectorized(4):
                y[j, i] = x[i, j] * T.float32(2)

    check(TransposeCopies(), before, expected)


@pytest.mark.parametrize("along_source", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (16, 8), (4, 8), (8, 16), (3, 5), (6, 8)])
def test_every_value_arrives(shape, along_source):
    values = np.random.default_rng(0).standard_normal((5, *shape[::-1])).astype(np.float32)
    result = tvm.runtime.tensor(np.full((5, *shape), np.nan, np.float32))
    transposed(*shape, along_source=along_source)["main"](tvm.runtime.tensor(values), result)
    np.testing.assert_array_equal(result.numpy(), values.swapaxes(1, 2))


def test_a_square_is_interleaved_in_registers():
    """8x8 with AVX2: 8 loads, 24 permutations, 8 stores, and no element alone."""
    code = assembly(transposed(8, 8))
    moves = code.count(r"vunpck\w+|vperm\w+|vshuf\w+|vinsertf128|vblend\w+|vmovlhps")
    assert 24 <= moves <= 32
    assert not code.count(r"vinsertps|vextractps|vgather\w+")
    assert len(code.stores(code.lines)) >= 8


@pytest.mark.parametrize("read,written", [(8, 16), (4, 8), (16, 8), (32, 4)])
def test_a_rectangle_of_halves_is_interleaved_within_lanes(read, written):
    """Pieces of registers are loaded or stored; 2-byte elements need up to three rounds."""
    source = te.placeholder((written, read), "float16", name="source")
    copy = te.compute((read, written), lambda i, j: source[j, i], name="copy")
    schedule = Schedule(te.create_prim_func([source, copy]))
    i, j = schedule.get_loops(schedule.get_sblock("copy"))
    schedule.reorder(j, i)
    schedule.vectorize(i)
    schedule.annotate(j, TRANSPOSE_LANES, 1)
    built = compile_function(schedule.mod["main"], V3)
    values = np.arange(read * written, dtype=np.float16).reshape(written, read)
    result = tvm.runtime.tensor(np.zeros((read, written), np.float16))
    built["main"](tvm.runtime.tensor(values), result)
    np.testing.assert_array_equal(result.numpy(), values.T)
    code = assembly(built)
    assert code.count(r"vpunpck\w+") >= min(read, written) * min(3, min(read, written) // 2)
