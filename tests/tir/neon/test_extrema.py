"""Extrema of two values: one function of LLVM's each, and what they make of a NaN."""

from __future__ import annotations

import numpy as np
import tvm
from tvm.script import tirx as T

from tests.assembly import assembly, matching
from tests.emulating import needs_arm, run_functions
from tests.kernels import scalable_kernel
from tests.tir.rewrites import check, check_same
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.machines.presets import MACHINES
from tvmconv.tir.neon.extrema import Extrema
from tvmconv.tir.pipeline import compile_function

NEON = MACHINES["aarch64"]


@T.prim_func(private=True, s_tir=True)
def several(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
    for i in range(2):
        y[T.Ramp(i * 4, 1, 4)] = T.max(
            T.min(x[T.Ramp(i * 4, 1, 4)], T.Broadcast(T.float32(6), 4)), y[T.Ramp(i * 4, 1, 4)]
        )


def test_each_becomes_a_function_of_llvm():
    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "float32")):
        for i in range(2):
            y[T.Ramp(i * 4, 1, 4)] = T.call_llvm_pure_intrin(
                "float32x4",
                "llvm.maximum",
                T.call_llvm_pure_intrin(
                    "float32x4",
                    "llvm.minnum",
                    x[T.Ramp(i * 4, 1, 4)],
                    T.Broadcast(T.float32(6), 4),
                ),
                y[T.Ramp(i * 4, 1, 4)],
            )

    check(Extrema(), several, expected)


def test_indices_and_other_types_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "float64"), y: T.Buffer((8,), "float64")):
        for i in range(8):
            y[T.max(i - 1, 0)] = T.max(x[i], y[i])

    check_same(Extrema(), others)


@T.prim_func(s_tir=True)
def bounds(x: T.Buffer((8,), "float32"), y: T.Buffer((16,), "float32")):
    """``min(6, max(0, x))``, which keeps NaN, and ``min(max(x, 0), 6)``, which does not."""
    for i in T.vectorized(8):
        y[i] = T.min(T.float32(6), T.max(T.float32(0), x[i]))
    for i in T.vectorized(8):
        y[i + 8] = T.min(T.max(x[i], T.float32(0)), T.float32(6))


@needs_arm
def test_nan_becomes_what_it_does_elsewhere(tmp_path):
    x = np.array([np.nan, -1, 3, 7, -np.inf, np.inf, 0, 6], np.float32)
    out = np.zeros(16, np.float32)
    ((actual,),) = run_functions([bounds], [[x, out]], NEON, tmp_path, ())
    function = tvm.tirx.build(bounds, target="llvm")["main"]
    result = tvm.runtime.tensor(out)
    function(tvm.runtime.tensor(x), result)
    np.testing.assert_array_equal(actual, result.numpy())
    assert np.isnan(actual[0]) and actual[8] == 0


def test_each_is_one_instruction():
    code = assembly(compile_function(bounds, NEON))
    assert code.has(r"\bfmax\s+v\d+\.4s") and code.has(r"\bfmaxnm\s+v\d+\.4s")
    assert not code.has(r"\bfcm\w+\s+v\d+\.4s")


def test_each_is_one_instruction_of_scalable_vectors():
    workload = Conv2dWorkload.parse("ic8ih9oc16kh3ph1+bias+clip(0,6)")
    kernel = scalable_kernel(workload, MACHINES["aarch64+sve"], "direct")
    code = assembly(kernel)
    sums = kernel.config.int("oc") * kernel.config.int("vectors")
    for name in ("max", "min"):
        assert len(matching(rf"f{name}(?:nm)?\s+z\d+\.s, p\d/m", code.lines)) >= sums
    assert not code.has(r"\bfcm\w+\s+p\d+\.s")
