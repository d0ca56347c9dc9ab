"""Products of INT8 matrices: accumulators of two pixels as squares."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, llvm, operator
from tvmconv.tir.neon.matrix_products import MatrixProducts


def product(x: Any, place: Any, w: Any, weight: Any) -> Any:
    """Eight channels of one pixel by four outputs."""
    data = operator("int32", "word", tirx.BufferLoad(x, [place]))
    weights = operator("int32x4", "word", tirx.BufferLoad(w, [tirx.Ramp(weight, 8, 4)]))
    return operator("int32x4", "dot_smmla", tirx.Broadcast(data, 4), weights)


def squares(total: Any, pixels: Any, w: Any, weight: Any) -> Any:
    """Two pixels by two outputs."""
    outputs = tirx.BufferLoad(w, [tirx.Ramp(weight, 1, 16)])
    bytes_ = tirx.reinterpret("int8x16", pixels)
    return llvm("int32x4", "aarch64.neon.smmla.v4i32.v16i8", total, bytes_, outputs)


def test_two_pixels_share_squares_until_they_are_read():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((32,), "int32"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")):
        s = T.alloc_buffer((2,), "int32x4", scope="local")
        s[0] = T.Broadcast(0, 4)
        s[1] = T.Broadcast(0, 4)
        for i in range(2):
            s[0] = s[0] + product(x, i * 16, w, i * 32)
            s[1] = s[1] + product(x, i * 16 + 2, w, i * 32)
        y[T.Ramp(0, 1, 4)] = s[0]
        y[T.Ramp(4, 1, 4)] = s[1]

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((32,), "int32"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")
    ):
        s = T.alloc_buffer((2,), "int32x4", scope="local")
        s[0] = T.Broadcast(0, 4)
        s[1] = T.Broadcast(0, 4)
        for i in range(2):
            s[0] = squares(s[0], x[T.Ramp(i * 16, 1, 4)], w, i * 32)
            s[1] = squares(s[1], x[T.Ramp(i * 16, 1, 4)], w, i * 32 + 16)
        y[T.Ramp(0, 1, 4)] = T.Shuffle([s[0], s[1]], [0, 1, 4, 5])
        y[T.Ramp(4, 1, 4)] = T.Shuffle([s[0], s[1]], [2, 3, 6, 7])

    check(MatrixProducts(), before, expected)


def test_updates_without_a_loop_share_squares_too():
    """16 channels of a 1x1 kernel are two steps, which are unrolled."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((32,), "int32"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")):
        s = T.alloc_buffer((2,), "int32x4", scope="local")
        s[0] = T.Broadcast(0, 4)
        s[1] = T.Broadcast(0, 4)
        s[0] = s[0] + product(x, 0, w, 0)
        s[1] = s[1] + product(x, 2, w, 0)
        s[0] = s[0] + product(x, 16, w, 32)
        s[1] = s[1] + product(x, 18, w, 32)
        y[T.Ramp(0, 1, 4)] = s[0]
        y[T.Ramp(4, 1, 4)] = s[1]

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((32,), "int32"), w: T.Buffer((64,), "int8"), y: T.Buffer((8,), "int32")
    ):
        s = T.alloc_buffer((2,), "int32x4", scope="local")
        s[0] = T.Broadcast(0, 4)
        s[1] = T.Broadcast(0, 4)
        s[0] = squares(s[0], x[T.Ramp(0, 1, 4)], w, 0)
        s[1] = squares(s[1], x[T.Ramp(0, 1, 4)], w, 16)
        s[0] = squares(s[0], x[T.Ramp(16, 1, 4)], w, 32)
        s[1] = squares(s[1], x[T.Ramp(16, 1, 4)], w, 48)
        y[T.Ramp(0, 1, 4)] = T.Shuffle([s[0], s[1]], [0, 1, 4, 5])
        y[T.Ramp(4, 1, 4)] = T.Shuffle([s[0], s[1]], [2, 3, 6, 7])

    check(MatrixProducts(), before, expected)


def test_a_product_alone_is_ordered_at_once():
    """Both pixels of its squares are the same one."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((2,), "int32"), w: T.Buffer((32,), "int8"), y: T.Buffer((4,), "int32")):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + product(x, 0, w, 0)

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((2,), "int32"), w: T.Buffer((32,), "int8"), y: T.Buffer((4,), "int32")
    ):
        y[T.Ramp(0, 1, 4)] = y[T.Ramp(0, 1, 4)] + T.Shuffle(
            [
                squares(
                    T.Broadcast(0, 4),
                    T.Shuffle([x[T.Ramp(0, 1, 2)], x[T.Ramp(0, 1, 2)]], [0, 1, 2, 3]),
                    w,
                    0,
                ),
                squares(
                    T.Broadcast(0, 4),
                    T.Shuffle([x[T.Ramp(0, 1, 2)], x[T.Ramp(0, 1, 2)]], [0, 1, 2, 3]),
                    w,
                    16,
                ),
            ],
            [0, 1, 4, 5],
        )

    check(MatrixProducts(), before, expected)
