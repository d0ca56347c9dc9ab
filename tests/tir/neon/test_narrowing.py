"""Narrowing by NEON's instructions, which saturate."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, llvm, operator
from tvmconv.operators.math import COUNTS_IN_ONES
from tvmconv.tir.neon.narrowing import Narrowing


def vector(buffer: Any, place: int) -> Any:
    return tirx.BufferLoad(buffer, [tirx.Ramp(place, 1, 4)])


def spread(value: int, dtype: str, lanes: int) -> Any:
    return tirx.Broadcast(tirx.const(value, dtype), lanes)


def narrowed(value: Any) -> Any:
    """-3 to 100 and the zero point 3, as int8."""
    limits = (tirx.Broadcast(number, 4) for number in (-3, 100, 3))
    return operator("int8x4", "narrowed_int8", value, *limits)


def packed(values: list[Any], *, added: bool) -> Any:
    """Vectors of 32 bits as one of 8; ``added`` where they have the zero point already."""
    parts = [llvm("int16x4", "aarch64.neon.sqxtn.v4i16", value) for value in values]
    bytes_ = []
    for pair in (parts[:2], parts[2:]):
        eight = tirx.Shuffle(pair, list(range(8)))
        if not added:
            eight = llvm("int16x8", "sadd.sat", eight, spread(3, "int16", 8))
        bytes_.append(llvm("int8x8", "aarch64.neon.sqxtn.v8i8", eight))
    whole = tirx.Shuffle(bytes_, list(range(16)))
    return tirx.min(tirx.max(whole, spread(0, "int8", 16)), spread(103, "int8", 16))


def counted(value: Any) -> Any:
    """float32 rounded by an addition, and the zero point."""
    ones = tirx.Broadcast(tirx.const(COUNTS_IN_ONES, "float32"), 4)
    total = llvm("float32x4", "arithmetic.fence", value) + ones
    bits = tirx.reinterpret("int32x4", total)
    return llvm("int32x4", "ssub.sat", bits, spread(0x4B400000 - 3, "int32", 4))


def test_stores_that_follow_each_other_are_packed_to_one():
    """The last vector is repeated in place of missing vectors."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int8")):
        y[T.Ramp(0, 1, 4)] = narrowed(vector(x, 0))
        y[T.Ramp(4, 1, 4)] = narrowed(vector(x, 4))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "int32"), y: T.Buffer((8,), "int8")):
        y[T.Ramp(0, 1, 8)] = T.Shuffle(
            [
                packed(
                    [vector(x, 0), vector(x, 4), vector(x, 4), vector(x, 4)],
                    added=False,
                )
            ],
            [0, 1, 2, 3, 4, 5, 6, 7],
        )

    check(Narrowing(False), before, expected)
    check(Narrowing(True), before, expected)


@pytest.mark.parametrize("by_adding", [False, True])
def test_float32_are_rounded(by_adding: bool):
    def rounded(value: Any) -> Any:
        return counted(value) if by_adding else nearest(value)

    def nearest(value: Any) -> Any:
        return llvm("int32x4", "aarch64.neon.fcvtns.v4i32.v4f32", value)

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int8")):
        y[T.Ramp(0, 1, 4)] = narrowed(operator("int32x4", "nearest", vector(x, 0)))
        y[T.Ramp(4, 1, 4)] = narrowed(operator("int32x4", "nearest", vector(x, 4)))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "float32"), y: T.Buffer((8,), "int8")):
        y[T.Ramp(0, 1, 8)] = T.Shuffle(
            [
                packed(
                    [
                        rounded(vector(x, 0)),
                        rounded(vector(x, 4)),
                        rounded(vector(x, 4)),
                        rounded(vector(x, 4)),
                    ],
                    added=by_adding,
                )
            ],
            [0, 1, 2, 3, 4, 5, 6, 7],
        )

    check(Narrowing(by_adding), before, expected)


def test_fixed_point_products_are_doubled_upper_bits():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = operator(
            "int32x4", "scaled", vector(x, 0), T.Broadcast(1 << 30, 4), T.Broadcast(7, 4)
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4,), "int32"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = llvm(
            "int32x4",
            "aarch64.neon.srshl.v4i32",
            llvm("int32x4", "aarch64.neon.sqdmulh.v4i32", vector(x, 0), T.Broadcast(1 << 30, 4)),
            T.Broadcast(-1, 4) - T.Broadcast(7, 4),
        )

    check(Narrowing(False), before, expected)
