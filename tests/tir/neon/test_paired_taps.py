"""Kernel elements of depthwise convolutions, multiplied two at a time."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, lanes_added, llvm, operator
from tvmconv.tir.neon.paired_taps import PairedTaps


def tap(x: Any, place: int, w: Any, weight: int) -> Any:
    """Four channels of one position times their weights."""
    loads = (tirx.BufferLoad(b, [tirx.Ramp(at, 1, 4)]) for b, at in ((x, place), (w, weight)))
    return operator("int32x4", "tap", *loads)


def product(x: Any, place: int, w: Any, weight: int, upper: int) -> Any:
    """The channels of two positions times their weights, in 16 bits."""
    bytes_ = list(range(8 * upper, 8 * upper + 8))
    data = tirx.BufferLoad(x, [tirx.Ramp(place, 1, 16)])
    four = tirx.reinterpret("int32", tirx.BufferLoad(w, [tirx.Ramp(weight, 1, 4)]))
    weights = tirx.reinterpret("int8x16", tirx.Broadcast(four, 4))
    operands = (tirx.Shuffle([vector], bytes_) for vector in (data, weights))
    return llvm("int16x8", "aarch64.neon.smull.v8i16", *operands)


def both(x: Any, w: Any, upper: int, column: int) -> Any:
    """The products of both elements of the kernel, for one of two columns."""
    pairs = product(x, 0, w, 0, upper) + product(x, 4, w, 4, upper)
    channels = list(range(4 * column, 4 * column + 4))
    return tirx.Cast("int32x4", tirx.Shuffle([pairs], channels))


def test_two_elements_are_added_in_16_bits():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((20,), "int8"), w: T.Buffer((8,), "int8")):
        s = T.alloc_buffer((4,), "int32x4", scope="local")
        s[0] = s[0] + tap(x, 0, w, 0)
        s[1] = s[1] + tap(x, 4, w, 0)
        s[2] = s[2] + tap(x, 8, w, 0)
        s[3] = s[3] + tap(x, 12, w, 0)
        s[0] = s[0] + tap(x, 4, w, 4)
        s[1] = s[1] + tap(x, 8, w, 4)
        s[2] = s[2] + tap(x, 12, w, 4)
        s[3] = s[3] + tap(x, 16, w, 4)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((20,), "int8"), w: T.Buffer((8,), "int8")):
        s = T.alloc_buffer((4,), "int32x4", scope="local")
        s[0] = lanes_added(s[0], both(x, w, 0, 0))
        s[1] = lanes_added(s[1], both(x, w, 0, 1))
        s[2] = lanes_added(s[2], both(x, w, 1, 0))
        s[3] = lanes_added(s[3], both(x, w, 1, 1))

    check(PairedTaps(), before, expected)


def test_fewer_columns_are_widened_and_multiplied():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((8,), "int8"), w: T.Buffer((4,), "int8")):
        s = T.alloc_buffer((2,), "int32x4", scope="local")
        s[0] = s[0] + tap(x, 0, w, 0)
        s[1] = s[1] + tap(x, 4, w, 0)

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((8,), "int8"), w: T.Buffer((4,), "int8")):
        s = T.alloc_buffer((2,), "int32x4", scope="local")
        s[0] = s[0] + T.Cast("int32x4", x[T.Ramp(0, 1, 4)]) * T.Cast("int32x4", w[T.Ramp(0, 1, 4)])
        s[1] = s[1] + T.Cast("int32x4", x[T.Ramp(4, 1, 4)]) * T.Cast("int32x4", w[T.Ramp(0, 1, 4)])

    check(PairedTaps(), before, expected)
