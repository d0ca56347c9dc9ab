"""Dot products as instructions of x86."""

from __future__ import annotations

import pytest
import tvm
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, lanes_added, llvm, operator
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tir.x86.dot_products import DotProducts


def test_vnni_adds_products_of_bytes():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "uint8"), w: T.Buffer((32,), "int8"), y: T.Buffer((8,), "int32")):
        y[T.Ramp(0, 1, 8)] = y[T.Ramp(0, 1, 8)] + operator(
            "int32x8",
            "dot_vpdpbusd",
            T.Broadcast(operator("int32", "word", x[4]), 8),
            operator("int32x8", "word", w[T.Ramp(0, 4, 8)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8,), "uint8"), w: T.Buffer((32,), "int8"), y: T.Buffer((8,), "int32")
    ):
        y[T.Ramp(0, 1, 8)] = llvm(
            "int32x8",
            "x86.avx512.vpdpbusd.256",
            y[T.Ramp(0, 1, 8)],
            T.reinterpret("int8x32", T.Broadcast(T.reinterpret("int32", x[T.Ramp(4, 1, 4)]), 8)),
            T.reinterpret("int8x32", T.reinterpret("int32x8", w[T.Ramp(0, 1, 32)])),
        )

    check(DotProducts(), before, expected)


def test_elements_of_several_vectors_become_dwords():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((2,), "uint8"), w: T.Buffer((8,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + operator(
            "int32x4",
            "dot_vpdpwssd",
            T.Broadcast(operator("int32", "pair", x[0]), 4),
            operator("int32x4", "side_by_side_2", w[T.Ramp(0, 1, 4)], w[T.Ramp(4, 1, 4)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((2,), "uint8"), w: T.Buffer((8,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = llvm(
            "int32x4",
            "x86.avx512.vpdpwssd.128",
            y[T.Ramp(0, 1, 4)],
            T.reinterpret(
                "int16x8",
                T.Broadcast(T.reinterpret("int32", T.Cast("int16x2", x[T.Ramp(0, 1, 2)])), 4),
            ),
            T.reinterpret(
                "int16x8",
                T.reinterpret(
                    "int32x4",
                    T.Cast(
                        "uint16x8",
                        T.Shuffle(
                            [
                                T.reinterpret("uint8x4", w[T.Ramp(0, 1, 4)]),
                                T.reinterpret("uint8x4", w[T.Ramp(4, 1, 4)]),
                            ],
                            [0, 4, 1, 5, 2, 6, 3, 7],
                        ),
                    ),
                ),
            ),
        )

    check(DotProducts(), before, expected)


def test_avx2_subtracts_products_of_negative_data():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((2,), "int16"), w: T.Buffer((16,), "int16"), y: T.Buffer((8,), "int32")):
        y[T.Ramp(0, 1, 8)] = y[T.Ramp(0, 1, 8)] + operator(
            "int32x8",
            "dot_vpmaddwd_negative",
            T.Broadcast(operator("int32", "word", x[0]), 8),
            operator("int32x8", "word", w[T.Ramp(0, 2, 8)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((2,), "int16"), w: T.Buffer((16,), "int16"), y: T.Buffer((8,), "int32")
    ):
        y[T.Ramp(0, 1, 8)] = lanes_added(
            y[T.Ramp(0, 1, 8)],
            llvm(
                "int32x8",
                "x86.avx2.pmadd.wd",
                T.reinterpret(
                    "int16x16", T.Broadcast(T.reinterpret("int32", x[T.Ramp(0, 1, 2)]), 8)
                ),
                T.reinterpret("int16x16", T.reinterpret("int32x8", w[T.Ramp(0, 1, 16)])),
            ),
            "sub",
        )

    check(DotProducts(), before, expected)


def test_avx2_adds_the_products_of_two_steps_in_16_bits():
    """The factor -1 of the second instruction makes the sums negative."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "uint8"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")):
        y[T.Ramp(0, 1, 8)] = y[T.Ramp(0, 1, 8)] + operator(
            "int32x8",
            "dot_vpmaddubsw_joined",
            T.Broadcast(operator("int32", "word", x[0]), 8),
            operator("int32x8", "word", w[T.Ramp(0, 4, 8)]),
            T.Broadcast(operator("int32", "word", x[4]), 8),
            operator("int32x8", "word", w[T.Ramp(32, 4, 8)]),
            T.Broadcast(3, 8),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8,), "uint8"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")
    ):
        y[T.Ramp(0, 1, 8)] = lanes_added(
            y[T.Ramp(0, 1, 8)],
            llvm(
                "int32x8",
                "x86.avx2.pmadd.wd",
                llvm(
                    "int16x16",
                    "x86.avx2.pmadd.ub.sw",
                    T.reinterpret(
                        "int8x32",
                        T.Broadcast(T.reinterpret("int32", x[T.Ramp(0, 1, 4)]), 8)
                        ^ T.Broadcast(3, 8),
                    ),
                    T.reinterpret("int8x32", T.reinterpret("int32x8", w[T.Ramp(0, 1, 32)])),
                )
                + llvm(
                    "int16x16",
                    "x86.avx2.pmadd.ub.sw",
                    T.reinterpret(
                        "int8x32", T.Broadcast(T.reinterpret("int32", x[T.Ramp(4, 1, 4)]), 8)
                    ),
                    T.reinterpret("int8x32", T.reinterpret("int32x8", w[T.Ramp(32, 1, 32)])),
                ),
                T.Broadcast(T.int16(-1), 16),
            ),
            "sub",
        )

    check(DotProducts(), before, expected)


def test_scalars_are_plain_arithmetic():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((2,), "int16"), w: T.Buffer((2,), "int16"), y: T.Buffer((1,), "int32")):
        y[0] = y[0] + operator(
            "int32",
            "dot_vpmaddwd",
            operator("int32", "word", x[0]),
            operator("int32", "word", w[0]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((2,), "int16"), w: T.Buffer((2,), "int16"), y: T.Buffer((1,), "int32")
    ):
        y[0] = y[0] + (
            (T.reinterpret("int32", x[T.Ramp(0, 1, 2)]) << 16 >> 16)
            * (T.reinterpret("int32", w[T.Ramp(0, 1, 2)]) << 16 >> 16)
            + (T.reinterpret("int32", x[T.Ramp(0, 1, 2)]) >> 16)
            * (T.reinterpret("int32", w[T.Ramp(0, 1, 2)]) >> 16)
        )

    check(DotProducts(), before, expected)


def test_other_sums_stay():
    @T.prim_func(private=True, s_tir=True)
    def others(x: T.Buffer((8,), "int8"), y: T.Buffer((1,), "int32")):
        y[0] = y[0] + T.Cast("int32", x[0]) * T.Cast("int32", x[1])

    check_same(DotProducts(), others)


def test_bfloat16_is_multiplied_by_a_function_of_llvm():
    """The data come last, which the instruction can broadcast from memory."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((4,), "bfloat16"), w: T.Buffer((32,), "bfloat16"), y: T.Buffer((16,), "float32")
    ):
        y[T.Ramp(0, 1, 16)] = y[T.Ramp(0, 1, 16)] + operator(
            "float32x16",
            "dot_vdpbf16ps",
            T.Broadcast(operator("int32", "word", x[2]), 16),
            operator("int32x16", "word", w[T.Ramp(0, 2, 16)]),
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((4,), "bfloat16"), w: T.Buffer((32,), "bfloat16"), y: T.Buffer((16,), "float32")
    ):
        y[T.Ramp(0, 1, 16)] = T.call_pure_extern(
            "float32x16",
            "tvmconv.vdpbf16ps_16",
            y[T.Ramp(0, 1, 16)],
            T.reinterpret("int32x16", w[T.Ramp(0, 1, 32)]),
            T.Broadcast(T.reinterpret("int32", x[T.Ramp(2, 1, 2)]), 16),
        )

    done = transformed(before, DotProducts())
    assert done.body.attr_key == "pragma_import_llvm"
    text = str(done.body.value.value)
    assert "define <16 x float> @tvmconv.vdpbf16ps_16(" in text
    assert "llvm.x86.avx512bf16.dpbf16ps.512" in text
    tvm.ir.assert_structural_equal(done.with_body(done.body.body), expected)


def test_bfloat16_is_multiplied_in_whole_vectors():
    @T.prim_func(private=True, s_tir=True)
    def scalar(
        x: T.Buffer((2,), "bfloat16"), w: T.Buffer((2,), "bfloat16"), y: T.Buffer((1,), "float32")
    ):
        y[0] = y[0] + operator(
            "float32",
            "dot_vdpbf16ps",
            operator("int32", "word", x[0]),
            operator("int32", "word", w[0]),
        )

    with pytest.raises(ValueError, match="cannot lower vdpbf16ps: the vector has 1 dwords"):
        transformed(scalar, DotProducts())
