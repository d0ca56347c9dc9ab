"""Transposing copies as loops over squares of vectors."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import te, tirx
from tvm.script import tirx as T

from tests.kernels import nodes
from tvmconv.tir.general.transposed_loops import transposed_loops

_VECTOR_BYTES = 16


def check(func: Any, expected: Any) -> None:
    """Compare the loops of a copy with the expected ones."""
    found = transposed_loops(func, _VECTOR_BYTES, parallel=False)
    found, wanted = (f.without_attr("global_symbol") for f in (found, expected))
    tvm.ir.assert_structural_equal(found, wanted)


def test_a_transposition_is_copied_by_squares_of_a_register():
    x = te.placeholder((8, 4), name="x")
    func = te.create_prim_func([x, te.compute((4, 8), lambda i, j: x[j, i])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((8, 4), "float32"), y: T.Buffer((4, 8), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row, tile in T.grid(1, 2):
            for line in T.serial(4, annotations={"tvmconv.transpose_lanes": 1}):
                for lane in T.vectorized(4):
                    y[lane, (row * 2 + tile) * 4 + line] = x[(row * 2 + tile) * 4 + line, lane]

    check(func, expected)


def test_lines_of_the_result_are_written_in_blocks_of_few_lines():
    """33 tiles of four: blocks of 32 tiles and of one, for each of two groups of lines."""
    x = te.placeholder((132, 8), name="x")
    func = te.create_prim_func([x, te.compute((8, 132), lambda i, j: x[j, i])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((132, 8), "float32"), y: T.Buffer((8, 132), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row in range(4):
            for tile in range(T.min(32, 33 - row // 2 * 32)):
                for line in T.serial(4, annotations={"tvmconv.transpose_lanes": 1}):
                    for lane in T.vectorized(4):
                        y[row % 2 * 4 + lane, (row // 2 * 32 + tile) * 4 + line] = x[
                            (row // 2 * 32 + tile) * 4 + line, row % 2 * 4 + lane
                        ]

    check(func, expected)


def test_lines_of_one_cache_set_are_read_a_cache_line_at_a_time():
    """Squares of four: a row of four operand lines gives the 16 elements of a cache line."""
    x = te.placeholder((256, 128), name="x")
    func = te.create_prim_func([x, te.compute((128, 256), lambda i, j: x[j, i])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((256, 128), "float32"), y: T.Buffer((128, 256), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row, tile in T.grid(8, 256):
            for line in T.serial(4, annotations={"tvmconv.transpose": 1}):
                for lane in T.vectorized(4):
                    y[(row * 4 + tile % 4) * 4 + lane, tile // 4 * 4 + line] = x[
                        tile // 4 * 4 + line, (row * 4 + tile % 4) * 4 + lane
                    ]

    check(func, expected)


def test_close_lines_are_written_in_blocks_along_the_operand():
    x = te.placeholder((8, 256), name="x")
    func = te.create_prim_func([x, te.compute((256, 8), lambda i, j: x[j, i])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((8, 256), "float32"), y: T.Buffer((256, 8), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row, tile in T.grid(4, 32):
            for line in T.serial(4, annotations={"tvmconv.transpose": 1}):
                for lane in T.vectorized(4):
                    y[(row // 2 * 32 + tile) * 4 + lane, row % 2 * 4 + line] = x[
                        row % 2 * 4 + line, (row // 2 * 32 + tile) * 4 + lane
                    ]

    check(func, expected)


def test_short_lines_of_one_cache_set_are_continued_before_the_next_lines():
    """Lines of 16 bytes, 2048 bytes apart: the axis after them is the innermost one."""
    x = te.placeholder((128, 4, 12), name="x")
    func = te.create_prim_func([x, te.compute((12, 128, 4), lambda r, n, w: x[n, w, r])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((128, 4, 12), "float32"), y: T.Buffer((12, 128, 4), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row, after, _tile in T.grid(3, 128, 1):
            for line in T.serial(4, annotations={"tvmconv.transpose": 1}):
                for lane in T.vectorized(4):
                    y[row * 4 + lane, after, line] = x[after, line, row * 4 + lane]

    check(func, expected)


def test_lines_of_eight_bytes_are_integers():
    x = te.placeholder((12, 8, 2), name="x")
    func = te.create_prim_func([x, te.compute((8, 12, 2), lambda i, j, k: x[j, i, k])])
    loops = transposed_loops(func, _VECTOR_BYTES, parallel=False)
    stores = nodes(loops, tirx.BufferStore)
    assert [(str(s.buffer.dtype), list(map(int, s.buffer.shape))) for s in stores] == [
        ("int64", [8, 12])
    ]


def test_two_lines_are_interleaved():
    x = te.placeholder((2, 6), name="x")
    func = te.create_prim_func([x, te.compute((6, 2), lambda i, j: x[j, i])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((2, 6), "float32"), y: T.Buffer((6, 2), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row, tile in T.grid(1, 2):
            for line in T.unroll(2):
                for lane in T.vectorized(4):
                    y[T.min((row * 2 + tile) * 4, 2) + lane, line] = x[
                        line, T.min((row * 2 + tile) * 4, 2) + lane
                    ]

    check(func, expected)


def test_three_neighbors_are_shuffled_with_the_lines_after_them():
    x = te.placeholder((12, 3), name="x")
    func = te.create_prim_func([x, te.compute((3, 12), lambda i, j: x[j, i])])

    @T.prim_func(s_tir=True)
    def expected(x: T.Buffer((12, 3), "float32"), y: T.Buffer((3, 12), "float32")):
        T.func_attr({"tirx.noalias": True})
        for row, tile in T.grid(1, 3):
            for line in T.serial(4, annotations={"tvmconv.transpose_neighbors": 1}):
                for lane in T.vectorized(3):
                    y[lane, (row * 3 + tile) * 4 + line] = x[(row * 3 + tile) * 4 + line, lane]

    check(func, expected)


def test_three_elements_of_longer_lines_are_left_to_others():
    x = te.placeholder((12, 4), name="x")
    func = te.create_prim_func([x, te.compute((3, 12), lambda i, j: x[j, i])])
    assert transposed_loops(func, _VECTOR_BYTES, parallel=False) is None


def test_a_plain_copy_is_left_to_others():
    x = te.placeholder((8, 4), name="x")
    func = te.create_prim_func([x, te.compute((8, 4), lambda i, j: x[i, j])])
    assert transposed_loops(func, _VECTOR_BYTES, parallel=False) is None


def test_an_element_that_is_repeated_along_a_long_line_is_left_to_others():
    x = te.placeholder((8,), name="x")
    long, short = (te.create_prim_func([x, te.compute((8, n), lambda i, j: x[i])]) for n in (9, 4))
    assert transposed_loops(long, _VECTOR_BYTES, parallel=False) is None
    assert transposed_loops(short, _VECTOR_BYTES, parallel=False) is not None
