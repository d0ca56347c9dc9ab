"""Copies between two directions of vectors: the values, and the instructions."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule

from tvmconv.machines.x86 import MACHINES
from tvmconv.tir.annotations import mark_transpose
from tvmconv.tir.pipeline import register

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
    return tvm.tirx.build(schedule.mod["main"], target=V3.tvm_target(), pipeline=register())


@pytest.mark.parametrize("along_source", [True, False])
@pytest.mark.parametrize("shape", [(4, 4), (8, 8), (16, 8), (4, 8), (8, 16), (3, 5), (6, 8)])
def test_every_value_arrives(shape, along_source):
    values = np.random.default_rng(0).standard_normal((5, *shape[::-1])).astype(np.float32)
    result = tvm.runtime.tensor(np.full((5, *shape), np.nan, np.float32))
    transposed(*shape, along_source=along_source)["main"](tvm.runtime.tensor(values), result)
    np.testing.assert_array_equal(result.numpy(), values.swapaxes(1, 2))


def test_a_square_is_interleaved_in_registers():
    """8x8 with AVX2: 8 loads, 24 permutations, 8 stores, and no element alone."""
    code = transposed(8, 8).inspect_source("s")
    moves = re.findall(r"\s(vunpck\w+|vperm\w+|vshuf\w+|vinsertf128|vblend\w+|vmovlhps)\s", code)
    assert 24 <= len(moves) <= 32
    assert not re.search(r"\s(vinsertps|vextractps|vgather\w+)\s", code)
    assert len(re.findall(r"vmov[au]p[sd]\s+%ymm\d+, .*\(", code)) >= 8
