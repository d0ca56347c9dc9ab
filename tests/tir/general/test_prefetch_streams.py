"""The prefetch of a product's vector operand: as a stream, and shared between tiles."""

from __future__ import annotations

from tvm.script import tirx as T

from tests.tir.rewrites import check, fetch
from tvmconv.tir.general.prefetch_streams import PrefetchStreams


def test_each_iteration_asks_for_its_lines_ahead():
    """24 values are 96 bytes, two lines; 256 bytes are 64 values."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((4, 64), "float32"),
        w: T.Buffer((64, 3, 8), "float32"),
        y: T.Buffer((4, 3, 8), "float32"),
    ):
        for c in T.serial(64, annotations={"tvmconv.stream": 256}):
            for i in T.unroll(4):
                for j in T.unroll(3):
                    for v in T.vectorized(8):
                        y[i, j, v] = y[i, j, v] + x[i, c] * w[c, j, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((4, 64), "float32"),
        w: T.Buffer((64, 3, 8), "float32"),
        y: T.Buffer((4, 3, 8), "float32"),
    ):
        for c in range(64):
            fetch(w[c, 0, 64], 3)
            fetch(w[c, 0, 80], 3)
            for i in T.unroll(4):
                for j in T.unroll(3):
                    for v in T.vectorized(8):
                        y[i, j, v] = y[i, j, v] + x[i, c] * w[c, j, v]

    check(PrefetchStreams(), before, expected)


def test_tiles_share_the_next_panel():
    """Eight tiles of 64 steps, panels of 64 times 16 values: two values a step."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((8, 64), "float32"),
        w: T.Buffer((3, 64, 2, 8), "float32"),
        y: T.Buffer((8, 3, 2, 8), "float32"),
    ):
        for p in range(3):
            for t in T.serial(8, annotations={"tvmconv.panel": 1}):
                for c in range(64):
                    for j in T.unroll(2):
                        for v in T.vectorized(8):
                            y[t, p, j, v] = y[t, p, j, v] + x[t, c] * w[p, c, j, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8, 64), "float32"),
        w: T.Buffer((3, 64, 2, 8), "float32"),
        y: T.Buffer((8, 3, 2, 8), "float32"),
    ):
        for p, t, c in T.grid(3, 8, 64):
            fetch(w[p, 0, 0, 1024 + (t * 64 + c) * 2], 2)
            for j in T.unroll(2):
                for v in T.vectorized(8):
                    y[t, p, j, v] = y[t, p, j, v] + x[t, c] * w[p, c, j, v]

    check(PrefetchStreams(), before, expected)


def test_shares_of_a_panel_that_exceed_a_line_are_asked_for_whole():
    """Three tiles, steps of 64 values: 22 values of each tile are 88 bytes, two lines."""

    @T.prim_func(private=True, s_tir=True)
    def before(w: T.Buffer((3, 8, 64), "float32"), y: T.Buffer((3, 64), "float32")):
        for p in range(3):
            for t in T.serial(3, annotations={"tvmconv.panel": 1}):
                for c in range(8):
                    for v in T.vectorized(64):
                        y[t, v] = y[t, v] + w[p, c, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(w: T.Buffer((3, 8, 64), "float32"), y: T.Buffer((3, 64), "float32")):
        for p, t, c in T.grid(3, 3, 8):
            fetch(w[p, 0, 512 + (t * 8 + c) * 22], 2)
            fetch(w[p, 0, 512 + (t * 8 + c) * 22 + 16], 2)
            for v in T.vectorized(64):
                y[t, v] = y[t, v] + w[p, c, v]

    check(PrefetchStreams(), before, expected)


def test_an_operand_without_vectors_is_no_stream():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "float32"), y: T.Buffer((8,), "float32")):
        for c in T.serial(64, annotations={"tvmconv.stream": 256}):
            for v in T.vectorized(8):
                y[v] = y[v] + x[c]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "float32"), y: T.Buffer((8,), "float32")):
        for c in range(64):
            for v in T.vectorized(8):
                y[v] = y[v] + x[c]

    check(PrefetchStreams(), before, expected)


def test_a_reduction_over_part_of_a_panel_has_no_next_one():
    """Where the next panel begins is known only if the tiles read this one to its end."""

    @T.prim_func(private=True, s_tir=True)
    def before(w: T.Buffer((3, 64, 8), "float32"), y: T.Buffer((4, 8), "float32")):
        for t in T.serial(4, annotations={"tvmconv.panel": 1}):
            for c in range(63):
                for v in T.vectorized(8):
                    y[t, v] = y[t, v] + w[0, c, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(w: T.Buffer((3, 64, 8), "float32"), y: T.Buffer((4, 8), "float32")):
        for t, c in T.grid(4, 63):
            for v in T.vectorized(8):
                y[t, v] = y[t, v] + w[0, c, v]

    check(PrefetchStreams(), before, expected)


def test_of_a_panel_that_is_read_in_part_the_same_part_of_the_next_is_asked_for():
    """Two tiles, panels of 4 times 8 steps of 16 values: half of a step's values each."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        w: T.Buffer((3, 4, 8, 2, 8), "float32"),
        n: T.Buffer((2,), "int32"),
        y: T.Buffer((2, 2, 8), "float32"),
    ):
        for t in T.serial(2, annotations={"tvmconv.panel": 1}):
            for a in range(n[0]):
                for b in range(n[1]):
                    for c in range(8):
                        for j in T.unroll(2):
                            for v in T.vectorized(8):
                                y[t, j, v] = y[t, j, v] + w[1, a * 2 + b, c, j, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(
        w: T.Buffer((3, 4, 8, 2, 8), "float32"),
        n: T.Buffer((2,), "int32"),
        y: T.Buffer((2, 2, 8), "float32"),
    ):
        for t in range(2):
            for a in range(n[0]):
                for b in range(n[1]):
                    for c in range(8):
                        fetch(
                            w[
                                1,
                                T.Add(T.Mul(0, 2), 0),
                                0,
                                0,
                                512 + (((a * 2 + b) * 8 + c) * 16 + t * 8),
                            ],
                            2,
                        )
                        for j in T.unroll(2):
                            for v in T.vectorized(8):
                                y[t, j, v] = y[t, j, v] + w[1, a * 2 + b, c, j, v]

    check(PrefetchStreams(), before, expected)


def test_pieces_of_one_dimension_are_asked_for_where_the_next_tile_begins():
    """24 dwords are 96 bytes; rows of planes are 512 apart."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4096,), "int32"), y: T.Buffer((5, 8, 24), "int32")):
        for t in range(5):
            for c in T.serial(8, annotations={"tvmconv.stream": 96}):
                for v in T.vectorized(24):
                    y[t, c, v] = x[c * 512 + t * 24 + v]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4096,), "int32"), y: T.Buffer((5, 8, 24), "int32")):
        for t in range(5):
            for c in range(8):
                fetch(x[T.Add(c * 512 + t * 24, 0) + 24], 2)
                fetch(x[T.Add(c * 512 + t * 24, 0) + 40], 2)
                fetch(x[T.Add(c * 512 + t * 24, 0) + 47], 2)
                for v in T.vectorized(24):
                    y[t, c, v] = x[c * 512 + t * 24 + v]

    check(PrefetchStreams(), before, expected)
