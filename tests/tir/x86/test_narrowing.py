"""Narrowing by packing instructions of x86."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, llvm, operator
from tvmconv.tir.x86.narrowing import Narrowing


def narrowed(value: Any) -> Any:
    """-3 to 200 and the zero point 3, as uint8."""
    limits = (tirx.Broadcast(number, 4) for number in (-3, 200, 3))
    return operator("uint8x4", "narrowed_uint8", value, *limits)


def half(one: Any, other: Any) -> Any:
    """Two vectors in 16 bits, with the zero point."""
    packed = llvm("int16x8", "x86.sse2.packssdw.128", one, other)
    return llvm("int16x8", "sadd.sat", packed, tirx.Broadcast(tirx.const(3, "int16"), 8))


def test_stores_that_follow_each_other_are_packed_to_one():
    """The last vector is repeated in place of missing vectors."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "uint8")):
        y[T.Ramp(0, 1, 4)] = narrowed(x[T.Ramp(0, 1, 4)])
        y[T.Ramp(4, 1, 4)] = narrowed(x[T.Ramp(4, 1, 4)])

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "uint8")):
        y[T.Ramp(0, 1, 8)] = T.Shuffle(
            [
                T.min(
                    T.max(
                        T.reinterpret(
                            "uint8x16",
                            T.reinterpret(
                                "int32x4",
                                llvm(
                                    "int8x16",
                                    "x86.sse2.packuswb.128",
                                    half(x[T.Ramp(0, 1, 4)], x[T.Ramp(4, 1, 4)]),
                                    half(x[T.Ramp(4, 1, 4)], x[T.Ramp(4, 1, 4)]),
                                ),
                            ),
                        ),
                        T.Broadcast(T.uint8(0), 16),
                    ),
                    T.Broadcast(T.uint8(203), 16),
                )
            ],
            [0, 1, 2, 3, 4, 5, 6, 7],
        )

    check(Narrowing(), before, expected)


def test_float32_are_rounded_as_the_processor_does():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int32")):
        y[T.Ramp(0, 1, 8)] = operator("int32x8", "nearest", x[T.Ramp(0, 1, 8)])

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int32")):
        y[T.Ramp(0, 1, 8)] = llvm("int32x8", "x86.avx.cvt.ps2dq.256", x[T.Ramp(0, 1, 8)])

    check(Narrowing(), before, expected)
