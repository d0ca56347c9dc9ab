"""Maxima and minima with a vector in memory."""

from __future__ import annotations

import numpy as np
from tvm.script import tirx as T

from tests.operators.harness import MACHINES, Built
from tests.tir.rewrites import check, check_same, llvm
from tvmconv.operators.plane_pool import plane_pool
from tvmconv.operators.pool import PoolWindow
from tvmconv.tir.x86.in_place_extrema import InPlaceExtrema


def test_an_extremum_in_place_becomes_an_instruction():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        y[T.Ramp(0, 1, 8)] = T.max(y[T.Ramp(0, 1, 8)], x[T.Ramp(0, 1, 8)])
        y[T.Ramp(4, 1, 4)] = T.min(x[T.Ramp(0, 1, 4)], y[T.Ramp(4, 1, 4)])

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        y[T.Ramp(0, 1, 8)] = llvm(
            "float32x8", "x86.avx.max.ps.256", y[T.Ramp(0, 1, 8)], x[T.Ramp(0, 1, 8)]
        )
        y[T.Ramp(4, 1, 4)] = llvm(
            "float32x4", "x86.sse.min.ps", x[T.Ramp(0, 1, 4)], y[T.Ramp(4, 1, 4)]
        )

    check(InPlaceExtrema(), before, expected)


def test_other_places_and_types_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((16,), "float32"), y: T.Buffer((8,), "int32")):
        x[T.Ramp(0, 1, 8)] = T.max(x[T.Ramp(8, 1, 8)], x[T.Ramp(1, 1, 8)])
        x[0] = T.max(x[0], x[1])
        y[T.Ramp(0, 1, 8)] = T.max(y[T.Ramp(0, 1, 8)], T.Broadcast(3, 8))

    check_same(InPlaceExtrema(), others)


def test_long_pools_store_without_masks():
    x = np.random.default_rng(0).standard_normal((2, 30, 40)).astype(np.float32)
    x[0, 3, 5] = np.nan
    rows, columns = PoolWindow(11, 1, 5, 5), PoolWindow(13)
    machine = MACHINES[0]
    built = Built(lambda t: plane_pool(t, rows, columns, "max", machine.lanes), [x], machine)
    assert not built.code.count("vmaskmovps")
    around = np.pad(x, ((0, 0), (5, 5), (0, 0)), constant_values=-np.inf)
    windows = np.lib.stride_tricks.sliding_window_view(around, (11, 13), (1, 2))
    (found,) = built()
    covered = np.isnan(windows).any((3, 4))
    np.testing.assert_array_equal(found[~covered], windows.max((3, 4))[~covered])
