"""Border tiles, taps outside the image, the parallel loop, register buffers, prefetches."""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, fetch
from tvmconv.tir.general.rewrite import nodes_of, transformed
from tvmconv.tir.general.specialize import Specialize


def test_border_tiles_become_code_of_their_own():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((30,), "float32"), y: T.Buffer((32,), "float32")):
        for t in T.serial(8, annotations={"tvmconv.cases": 1}):
            for v in T.vectorized(4):
                y[t * 4 + v] = T.if_then_else(
                    t * 4 + v >= 1 and t * 4 + v < 31, x[t * 4 + v - 1], T.float32(0)
                )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((30,), "float32"), y: T.Buffer((32,), "float32")):
        for v in T.vectorized(4):
            y[v] = T.if_then_else(T.LE(1, v), x[v - 1], T.float32(0))
        for t in range(6):
            for v in T.vectorized(4):
                y[t * 4 + v + 4] = x[t * 4 + v + 3]
        for v in T.vectorized(4):
            y[v + 28] = T.if_then_else(v < 3, x[v + 27], T.float32(0))

    check(Specialize(), before, expected)


def test_unrolled_pixels_are_cut_where_a_predicate_changes():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((12,), "float32"), y: T.Buffer((12,), "float32")):
        for t in T.serial(4, annotations={"tvmconv.cases": 1}):
            for i in T.unroll(3):
                y[t * 3 + i] = T.if_then_else(t * 3 + i >= 1, x[t * 3 + i - 1], T.float32(0))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((12,), "float32"), y: T.Buffer((12,), "float32")):
        y[0] = T.float32(0)
        for i in T.unroll(2):
            y[i + 1] = x[i]
        for t in range(3):
            for i in T.unroll(3):
                y[t * 3 + i + 3] = x[t * 3 + i + 2]

    check(Specialize(), before, expected)


def test_a_last_tile_that_is_smaller_is_cut_off():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((10,), "float32"), y: T.Buffer((10,), "float32")):
        for t in T.serial(3, annotations={"tvmconv.cases": 1}):
            for i in T.unroll(4):
                if t * 4 + i < 10:
                    y[t * 4 + i] = x[t * 4 + i]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((10,), "float32"), y: T.Buffer((10,), "float32")):
        for t in range(2):
            for i in T.unroll(4):
                y[t * 4 + i] = x[t * 4 + i]
        for i in T.unroll(2):
            y[i + 8] = x[i + 8]

    check(Specialize(), before, expected)


def test_an_inner_loop_is_guarded_by_one_test_of_the_outer_loop():
    """The columns of interior rows, which have a predicate of their own."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((30, 3), "float32"), y: T.Buffer((16, 2, 4), "float32")):
        for h in T.parallel(16):
            for w in T.serial(4, annotations={"tvmconv.interior": 1}):
                for i in T.unroll(2):
                    y[h, i, w] = T.if_then_else(
                        h * 2 + i >= 1 and h * 2 + i < 31 and w < 3,
                        x[h * 2 + i - 1, w],
                        T.float32(0),
                    )

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((30, 3), "float32"), y: T.Buffer((16, 2, 4), "float32")):
        for h in T.parallel(16):
            if T.LE(1, h) and h < 15:
                for w in range(4):
                    for i in T.unroll(2):
                        y[h, i, w] = T.if_then_else(w < 3, x[h * 2 + i - 1, w], T.float32(0))
            else:
                for w in range(4):
                    for i in T.unroll(2):
                        y[h, i, w] = T.if_then_else(
                            T.LE(1, h * 2 + i) and h * 2 + i < 31 and w < 3,
                            x[h * 2 + i - 1, w],
                            T.float32(0),
                        )

    check(Specialize(), before, expected)


def rows_of_taps(kind):
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((8, 4), "float32"),
        w: T.Buffer((3, 4), "float32"),
        y: T.Buffer((8, 4), "float32"),
    ):
        for h in range(8):
            for r in T.serial(3, annotations={"tvmconv.taps": kind}):
                for v in T.vectorized(4):
                    y[h, v] = (
                        y[h, v]
                        + T.if_then_else(h + r >= 1 and h + r < 9, x[h + r - 1, v], T.float32(0))
                        * w[r, v]
                    )

    return before


def test_rows_of_taps_outside_the_image_are_skipped():
    """One test around the vectors of a row, instead of one for each read."""

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8, 4), "float32"),
        w: T.Buffer((3, 4), "float32"),
        y: T.Buffer((8, 4), "float32"),
    ):
        for h in range(8):
            for r in range(3):
                if T.LE(1, h + r) and h + r < 9:
                    for v in T.vectorized(4):
                        y[h, v] = y[h, v] + x[h + r - 1, v] * w[r, v]

    check(Specialize(), rows_of_taps("rows"), expected)


def test_taps_of_an_unrolled_tile_disappear_from_the_border():
    """Two pixels of a tile at the left border: the first tap has one of them."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((5,), "float32"), w: T.Buffer((3,), "float32"), y: T.Buffer((4,), "float32")
    ):
        for t in T.serial(2, annotations={"tvmconv.cases": 1}):
            for s in T.serial(3, annotations={"tvmconv.taps": "columns"}):
                for i in T.unroll(2):
                    y[t * 2 + i] = (
                        y[t * 2 + i]
                        + T.if_then_else(t * 2 + i + s >= 1, x[t * 2 + i + s - 1], T.float32(0))
                        * w[s]
                    )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((5,), "float32"), w: T.Buffer((3,), "float32"), y: T.Buffer((4,), "float32")
    ):
        y[1] = y[1] + x[0] * w[0]
        for s in range(2):
            for i in T.unroll(2):
                y[i] = y[i] + x[i + s] * w[s + 1]
        for s in range(3):
            for i in T.unroll(2):
                y[i + 2] = y[i + 2] + x[i + s + 1] * w[s]

    check(Specialize(), before, expected)


def test_outer_loops_are_fused_into_one_that_picks_the_copy():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((2, 8), "float32"), y: T.Buffer((2, 8), "float32")):
        for n in T.serial(2, annotations={"tvmconv.parallel": 1}):
            for t in T.serial(8, annotations={"tvmconv.parallel": 1, "tvmconv.cases": 1}):
                y[n, t] = T.if_then_else(t >= 1, x[n, t - 1], T.float32(0))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((2, 8), "float32"), y: T.Buffer((2, 8), "float32")):
        for tile in T.parallel(16):
            if tile % 8 < 1:
                y[tile // 8, 0] = T.float32(0)
            else:
                y[tile // 8, tile % 8] = x[tile // 8, tile % 8 - 1]

    check(Specialize(), before, expected)


def test_a_large_accumulator_is_cut_along_an_unrolled_dimension():
    """1,536 bytes would come from the workspace pool; three times 512 stay on the stack."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((3, 256), "float32"), y: T.Buffer((3, 256), "float32")):
        for t in T.serial(2, annotations={"tvmconv.parallel": 1}):
            acc = T.alloc_buffer((3, 128), "float32", scope="local")
            for i in T.unroll(3):
                for v in range(128):
                    acc[i, v] = x[i, t * 128 + v]
            for i in T.unroll(3):
                for v in range(128):
                    y[i, t * 128 + v] = acc[i, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((3, 256), "float32"), y: T.Buffer((3, 256), "float32")):
        for tile in T.parallel(2):
            acc_0 = T.alloc_buffer((1, 128), "float32", scope="local")
            acc_1 = T.alloc_buffer((1, 128), "float32", scope="local")
            acc_2 = T.alloc_buffer((1, 128), "float32", scope="local")
            for v in range(128):
                acc_0[0, v] = x[0, tile * 128 + v]
            for v in range(128):
                acc_1[0, v] = x[1, tile * 128 + v]
            for v in range(128):
                acc_2[0, v] = x[2, tile * 128 + v]
            for v in range(128):
                y[0, tile * 128 + v] = acc_0[0, v]
            for v in range(128):
                y[1, tile * 128 + v] = acc_1[0, v]
            for v in range(128):
                y[2, tile * 128 + v] = acc_2[0, v]

    check(Specialize(), before, expected)


def test_the_reduction_asks_for_the_next_inputs_and_weights():
    """The tile's lines of the next channel block, the next tile's after the last; one weight."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((1, 2, 8, 4), "float32"),
        w: T.Buffer((2, 2, 4, 1, 8), "float32"),
        y: T.Buffer((1, 2, 8, 8), "float32"),
    ):
        for k, t, cb in T.grid(2, 2, 2):
            for c in T.serial(4, annotations={"tvmconv.prefetch": [1, 1]}):
                for i in T.unroll(4):
                    for v in T.vectorized(8):
                        y[0, k, t * 4 + i, v] = (
                            y[0, k, t * 4 + i, v] + x[0, cb, t * 4 + i, c] * w[k, cb, c, 0, v]
                        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((1, 2, 8, 4), "float32"),
        w: T.Buffer((2, 2, 4, 1, 8), "float32"),
        y: T.Buffer((1, 2, 8, 8), "float32"),
    ):
        for k, t, cb, c in T.grid(2, 2, 2, 4):
            fetch(x[0, T.Select(cb < 1, cb + 1, 0), T.Select(cb < 1, t, t + 1) * 4 + c, 0], 3)
            fetch(w[k + 1, 0, 0, 0, cb * 32 + c * 8], 2)
            for i in T.unroll(4):
                for v in T.vectorized(8):
                    y[0, k, t * 4 + i, v] = (
                        y[0, k, t * 4 + i, v] + x[0, cb, t * 4 + i, c] * w[k, cb, c, 0, v]
                    )

    check(Specialize(), before, expected)


def test_nothing_is_prefetched_for_what_is_no_product_of_two():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4, 8), "float32"), y: T.Buffer((8,), "float32")):
        for c in T.serial(4, annotations={"tvmconv.prefetch": [1, 1]}):
            for v in T.vectorized(8):
                y[v] = y[v] + x[c, v]

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4, 8), "float32"), y: T.Buffer((8,), "float32")):
        for c in range(4):
            for v in T.vectorized(8):
                y[v] = y[v] + x[c, v]

    check(Specialize(), before, expected)


def test_a_loop_with_more_than_seven_cases_stays_whole():
    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for t in T.serial(8, annotations={"tvmconv.cases": 1}):
            for i in range(8):
                y[t * 8 + i] = T.if_then_else(i * 3 < t * 2, x[t * 8 + i], T.float32(0))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
        for t, i in T.grid(8, 8):
            y[t * 8 + i] = T.if_then_else(i * 3 < t * 2, x[t * 8 + i], T.float32(0))

    check(Specialize(), before, expected)


def test_long_rows_of_taps_have_bounds_where_a_loop_has_too_many_cases():
    """Taps before and after the range in which both pixels are inside keep their predicates."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((40,), "float32"), w: T.Buffer((40,), "float32"), y: T.Buffer((40,), "float32")
    ):
        for t in T.serial(20, annotations={"tvmconv.cases": 1}):
            for s in T.serial(40, annotations={"tvmconv.taps": "columns"}):
                for i in T.unroll(2):
                    y[t * 2 + i] = (
                        y[t * 2 + i]
                        + T.if_then_else(
                            t * 2 + i + s >= 20 and t * 2 + i + s < 60,
                            x[t * 2 + i + s - 20],
                            T.float32(0),
                        )
                        * w[s]
                    )

    after = transformed(before, Specialize())
    (tiles,) = [loop for loop in nodes_of(after.body, tirx.For) if loop.loop_var.name == "t"]
    taps = [loop for loop in nodes_of(tiles, tirx.For) if loop.loop_var.name == "s"]
    assert ["if_then_else" in str(loop) for loop in taps] == [True, False, True]


def test_a_skipped_read_counts_only_where_it_is_a_factor_of_a_sum():
    """``max(y, 0)`` differs from ``y + 0 * w``: values outside must be written."""

    @T.prim_func(private=True, s_tir=True)
    def before(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        for t in T.serial(4, annotations={"tvmconv.cases": 1}):
            y[t] = T.max(y[t], T.if_then_else(t >= 1, x[t - 1], T.float32(0)))

    @T.prim_func(private=True, s_tir=True)
    def expected(x: T.Buffer((4,), "float32"), y: T.Buffer((4,), "float32")):
        y[0] = T.max(y[0], T.float32(0))
        for t in range(3):
            y[t + 1] = T.max(y[t + 1], x[t])

    check(Specialize(), before, expected)


def test_functions_without_annotations_are_left_alone():
    @T.prim_func(private=True, s_tir=True)
    def padded(x: T.Buffer((30,), "float32"), y: T.Buffer((32,), "float32")):
        for t in T.serial(8, annotations={"tvmconv.stream": 64}):
            for v in T.vectorized(4):
                y[t * 4 + v] = T.if_then_else(
                    t * 4 + v >= 1 and t * 4 + v < 31, x[t * 4 + v - 1], T.float32(0)
                )

    check_same(Specialize(), padded)
