"""Loops of operators that are left to the last rule: threads share some, the others stay."""

from __future__ import annotations

import pytest
from tvm import te, tirx

from tests.kernels import V3, nodes
from tests.toy_family import TOY
from tvmconv.kernels.rules import schedule_function
from tvmconv.operators.pool import PoolWindow, max_pool


def pooling(machine):
    """Windows of three by three on 16 blocks of 15 by 15 pixels."""
    data = te.placeholder((1, 16, 31, 31, machine.lanes), "float32", name="data")
    window = PoolWindow(3, 2)
    return schedule_function(te.create_prim_func([data, max_pool(data, window, window)]), machine)


def extents(machine):
    """Without the vector's own loop."""
    loops = nodes(pooling(machine), tirx.For)
    return sorted(int(loop.extent) for loop in loops if loop.kind != tirx.ForKind.VECTORIZED)


@pytest.mark.parametrize(
    "cores, expected", [(1, [15, 15, 16]), (2, [8, 15, 32]), (8, [1, 15, 240])]
)
def test_threads_share_bands_of_rows_and_the_loop_over_a_row_stays(cores, expected):
    assert extents(V3.with_cores(cores)) == expected


@pytest.mark.parametrize("cores, expected", [(1, [15, 15, 16]), (2, [15, 15, 16]), (8, [15, 240])])
def test_the_loop_over_a_row_stays_without_bands(cores, expected):
    assert extents(TOY.with_cores(cores)) == expected


@pytest.mark.parametrize("dtype", ["float64", "int64", "bool", "bfloat16"])
def test_images_of_every_type_have_bands_of_rows(dtype):
    data = te.placeholder((1, 4, 40, 30, 16), dtype, name="data")
    rows = te.compute((1, 4, 20, 30, 16), lambda n, b, h, w, c: data[n, b, h * 2, w, c])
    function = schedule_function(te.create_prim_func([data, rows]), V3.with_cores(2))
    loops = nodes(function, tirx.For)
    shared = [int(loop.extent) for loop in loops if loop.kind == tirx.ForKind.PARALLEL]
    assert shared == [8]
