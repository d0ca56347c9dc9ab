"""INT8 dot products by SVE, for vectors of a fixed length."""

from __future__ import annotations

import re
from typing import Any

import tvm
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, operator
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.sve.dot_products import DotProducts


def weights(w: Any, lanes: int) -> Any:
    return operator(f"int32x{lanes}", "word", tirx.BufferLoad(w, [tirx.Ramp(0, 4, lanes)]))


def imported(func: Any) -> tuple[str, Any]:
    """The functions of LLVM that a function calls, and the function without them."""
    done = transformed(func, DotProducts())
    assert done.body.attr_key == "pragma_import_llvm"
    return str(done.body.value.value), done.with_body(done.body.body)


def defined(text: str) -> list[str]:
    return re.findall(r"define .* @(\S+)\(", text)


def test_a_lane_multiplies_a_vector_of_128_bits():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((16,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_sve_sdot",
            T.Shuffle([operator("int32x4", "word", x[T.Ramp(0, 4, 4)])], [1, 1, 1, 1]),
            weights(w, 4),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((16,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")
    ):
        y[T.Ramp(0, 1, 4)] = T.call_pure_extern(
            "int32x4",
            "tvmconv.sve_sdot_4_1",
            y[T.Ramp(0, 1, 4)],
            T.reinterpret("int32x4", w[T.Ramp(0, 1, 16)]),
            T.reinterpret("int32x4", x[T.Ramp(0, 1, 16)]),
        )

    text, done = imported(before)
    tvm.ir.assert_structural_equal(done, expected)
    assert defined(text) == ["tvmconv.sve_sdot_4_1"]
    assert "sdot.lane.nxv4i32" in text and ", i32 1)" in text


def test_vectors_of_512_bits_are_multiplied_whole():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4,), "int8"), w: T.Buffer((64,), "int8"), y: T.Buffer((16,), "int32")):
        y[T.Ramp(0, 1, 16)] = y[T.Ramp(0, 1, 16)] + operator(
            "int32x16",
            "dot_sve_sdot",
            T.Broadcast(operator("int32", "word", x[0]), 16),
            weights(w, 16),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((4,), "int8"), w: T.Buffer((64,), "int8"), y: T.Buffer((16,), "int32")
    ):
        y[T.Ramp(0, 1, 16)] = T.call_pure_extern(
            "int32x16",
            "tvmconv.sve_sdot_16",
            y[T.Ramp(0, 1, 16)],
            T.reinterpret("int32x16", w[T.Ramp(0, 1, 64)]),
            T.Broadcast(T.reinterpret("int32", x[T.Ramp(0, 1, 4)]), 16),
        )

    text, done = imported(before)
    tvm.ir.assert_structural_equal(done, expected)
    assert defined(text) == ["tvmconv.sve_sdot_16"]


def test_operators_of_neon_keep_their_dwords():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_sdot",
            T.Broadcast(operator("int32", "word", x[0]), 4),
            weights(w, 4),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_sdot",
            T.Broadcast(T.reinterpret("int32", x[T.Ramp(0, 1, 4)]), 4),
            T.reinterpret("int32x4", w[T.Ramp(0, 1, 16)]),
        )

    check(DotProducts(), before, expected)
