"""Sums modulo 2**32: rewritten ones, and the promises to LLVM about kernels' sums."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T

from tests.assembly import assembly
from tests.kernels import V3, V4
from tests.tir.rewrites import check, check_same
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.record import Machine
from tvmconv.machines.targets import resolve_machine
from tvmconv.tir import pipeline
from tvmconv.tir.general.rewrite import function_pass
from tvmconv.tir.general.wrapping_sums import WrappingSums
from tvmconv.tir.pipeline import compile_function

# a sum of vectors as LLVM gets it, with what it is promised
_SUM = re.compile(r"= (?:add|sub|mul)( nuw)?( nsw)? <(?:vscale x )?\d+ x i32>")
# the algorithms whose sums are of TIR and not of instructions alone
LAYERS = {
    "winograd": "ic16ih9oc16kh3ph1",
    "direct": "ic16ih9oc16kh3ph1",
    "direct_bytes": "ic16ih9oc16kh3ph1",
    "direct_first": "ic3ih9oc16kh3ph1:nchw",
    "depthwise": "g16ic16ih9oc16kh3ph1",
    "im2col": "ic16ih9oc16kh3ph1",
}
TARGETS = ["x86-64-v3", "llvm -mcpu=icelake-server", "cortex-a53", "neoverse-n1", "a64fx"]


def test_sums_of_numbers_from_memory_are_computed_in_64_bits():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32")):
        for i in range(8):
            y[i * 3 + 1] = x[i + 2] * 3 - i * 5 + (x[i * 2] >> 1)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "int32"), y: T.Buffer((64,), "int32")):
        for i in range(8):
            y[i * 3 + 1] = T.Cast(
                "int32",
                T.Cast(
                    "int64",
                    T.Cast(
                        "int32",
                        T.Cast(
                            "int64",
                            T.Cast("int32", T.Cast("int64", x[i + 2]) * T.Cast("int64", 3)),
                        )
                        - T.Cast("int64", i * 5),
                    ),
                )
                + T.Cast("int64", x[i * 2] >> 1),
            )

    check(WrappingSums(), before, expected)


def test_unsigned_differences_may_be_negative_and_products_need_all_bits():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "uint32"), y: T.Buffer((64,), "uint32")):
        y[T.Ramp(0, 1, 4)] = x[T.Ramp(0, 1, 4)] - x[T.Ramp(4, 1, 4)] * x[T.Ramp(8, 1, 4)]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "uint32"), y: T.Buffer((64,), "uint32")):
        y[T.Ramp(0, 1, 4)] = T.Cast(
            "uint32x4",
            T.Cast("int64x4", x[T.Ramp(0, 1, 4)])
            - T.Cast(
                "int64x4",
                T.Cast(
                    "uint32x4",
                    T.Cast("uint64x4", x[T.Ramp(4, 1, 4)]) * T.Cast("uint64x4", x[T.Ramp(8, 1, 4)]),
                ),
            ),
        )

    check(WrappingSums(), before, expected)


def test_indices_and_other_types_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(
        x: T.Buffer((64,), "float32"),
        table: T.Buffer((64,), "int32"),
        long: T.Buffer((64,), "int64"),
        y: T.Buffer((64,), "float32"),
    ):
        for i in range(8):
            y[table[i * 2] + i] = x[table[i] * 2 + i] + x[i + 1] + T.Cast("float32", i * 2 + 1)
            long[i] = long[i] + long[i + 8]

    check_same(WrappingSums(), others)


def test_a_sum_that_overflows_wraps():
    """With TVM's promise LLVM compares ``y`` with 0."""

    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((16,), "int32"), y: T.Buffer((16,), "int32"), larger: T.Buffer((16,), "int32")
    ):
        copy = T.alloc_buffer((16,), "int32", scope="local")  # TVM compares with no copy
        for i in T.vectorized(16):
            copy[i] = x[i]
        for i in T.vectorized(16):
            larger[i] = T.Cast("int32", x[i] + y[i] > copy[i])

    x = np.resize(np.array([2**31 - 1, 0, -1, 2**31 - 2, -(2**31)], np.int32), 16)
    y = np.resize(np.array([1, 3, -2], np.int32), 16)
    result = tvm.runtime.tensor(np.full(16, 7, np.int32))
    compile_function(main, V3)["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y), result)
    np.testing.assert_array_equal(result.numpy(), (x + y > x).astype(np.int32))


def promised(name: str, machine: Machine, monkeypatch: Any) -> list[bool]:
    """Whether LLVM is promised that they do not overflow, of a kernel's sums of vectors."""
    text, types = LAYERS[name], "u8s8s32s32"
    if machine.triple.startswith("aarch64"):
        types = "s8s8s32s32"
    workload = Conv2dWorkload.parse(f"{text}:{types}:zpdata+bias")
    if reason := registry.algorithm(name).unsupported(workload, machine):
        pytest.skip(reason)
    monkeypatch.setattr(pipeline, "_DRAFT_LEVEL", 0)  # as it is given to LLVM
    code = compile_function(make_kernel(workload, machine, name).prim_func(), machine, draft=True)
    return [bool(nuw or nsw) for nuw, nsw in _SUM.findall(str(code.inspect_source("ll")))]


# every second pair by default: each kind of kernel, and each target
@pytest.mark.parametrize(
    ("name", "target"),
    [
        pytest.param(*pair, marks=[pytest.mark.slow] * (index % 2))
        for index, pair in enumerate(product(LAYERS, TARGETS))
    ],
)
def test_llvm_is_promised_nothing_of_the_sums_of_8_bit_kernels(
    name: str, target: str, monkeypatch: Any
):
    assert not any(promised(name, resolve_machine(target, 1), monkeypatch))


@pytest.mark.parametrize("target", TARGETS)
def test_without_the_pass_it_would_be(target: str, monkeypatch: Any):
    monkeypatch.setattr(pipeline, "WrappingSums", lambda: function_pass("None", lambda f: f))
    assert any(promised("winograd", resolve_machine(target, 1), monkeypatch))


def test_instructions_are_those_of_sums_of_32_bits():
    """No product, sum or conversion of 64 bits is left."""
    workload = Conv2dWorkload.parse("ic16ih9oc16kh3ph1:u8s8s32s32:zpdata+bias")
    for machine in (V3, V4):
        kernel = make_kernel(workload, machine, "winograd")
        code = assembly(kernel)
        assert code.count("vpaddd")
        assert not code.count(r"v(?:paddq|psubq|pmulu?dq|pmullq|pmovsxdq|pmovqd)")
