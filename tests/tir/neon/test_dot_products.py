"""Dot products as instructions of NEON."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, lanes_added, llvm, operator
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.neon.dot_products import DotProducts


def test_sdot_takes_the_weights_first():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_sdot",
            T.Broadcast(operator("int32", "word", x[4]), 4),
            operator("int32x4", "word", w[T.Ramp(0, 4, 4)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = llvm(
            "int32x4",
            "aarch64.neon.sdot.v4i32.v16i8",
            y[T.Ramp(0, 1, 4)],
            T.reinterpret("int8x16", T.reinterpret("int32x4", w[T.Ramp(0, 1, 16)])),
            T.reinterpret("int8x16", T.Broadcast(T.reinterpret("int32", x[T.Ramp(4, 1, 4)]), 4)),
        )

    check(DotProducts(), before, expected)


def products(x: Any, w: Any, part: int) -> Any:
    """Two channels of the dword 1 of data, times their weights, in 16 bits."""
    bytes_ = list(range(8 * part, 8 * part + 8))
    data, weight = (tirx.BufferLoad(buffer, [tirx.Ramp(0, 1, 16)]) for buffer in (x, w))
    pairs = tirx.reinterpret("int16x8", tirx.reinterpret("int32x4", data))
    spread = tirx.reinterpret("int8x16", tirx.Shuffle([pairs], [2 + part] * 8))
    weights = tirx.reinterpret("int8x16", tirx.reinterpret("int32x4", weight))
    operands = (tirx.Shuffle([vector], bytes_) for vector in (weights, spread))
    return llvm("int16x8", "aarch64.neon.smull.v8i16", *operands)


def test_smull_spreads_two_channels_at_a_time():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((16,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_smull",
            T.Shuffle([operator("int32x4", "word", x[T.Ramp(0, 4, 4)])], [1, 1, 1, 1]),
            operator("int32x4", "word", w[T.Ramp(0, 4, 4)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((16,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((4,), "int32")
    ):
        y[T.Ramp(0, 1, 4)] = lanes_added(
            y[T.Ramp(0, 1, 4)],
            llvm(
                "int32x4",
                "aarch64.neon.saddlp.v4i32.v8i16",
                products(x, w, 0) + products(x, w, 1),
            ),
        )

    check(DotProducts(), before, expected)


def test_smlal_multiplies_by_the_element_itself():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "int16"), w: T.Buffer((4,), "int16"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_smlal",
            T.Broadcast(operator("int32", "word", x[4]), 4),
            operator("int32x4", "word", w[T.Ramp(0, 1, 4)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8,), "int16"), w: T.Buffer((4,), "int16"), y: T.Buffer((4,), "int32")
    ):
        y[T.Ramp(0, 1, 4)] = lanes_added(
            y[T.Ramp(0, 1, 4)],
            llvm(
                "int32x4",
                "aarch64.neon.smull.v4i32",
                w[T.Ramp(0, 1, 4)],
                T.Broadcast(x[4], 4),
            ),
        )

    check(DotProducts(), before, expected)


def test_smull_of_another_length_is_refused():
    @T.prim_func(private=True, s_tir=True)
    def scalar(x: T.Buffer((4,), "int8"), w: T.Buffer((4,), "int8"), y: T.Buffer((1,), "int32")):
        y[0] = y[0] + operator(
            "int32", "dot_smull", operator("int32", "word", x[0]), operator("int32", "word", w[0])
        )

    with pytest.raises(Exception, match="the vector has 1 dwords"):
        transformed(scalar, DotProducts())


def test_other_sums_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "int8"), y: T.Buffer((1,), "int32")):
        y[0] = y[0] + T.Cast("int32", x[0]) * T.Cast("int32", x[1])

    check_same(DotProducts(), others)
