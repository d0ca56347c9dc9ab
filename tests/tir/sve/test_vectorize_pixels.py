"""Loops over pixels by scalable vectors: the code they become, and loops that stay as they are."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import te, tirx
from tvm.script import tirx as T

from tests.assembly import Assembly, assembly
from tests.tir.rewrites import check, check_same, llvm
from tvmconv.machines.presets import MACHINES
from tvmconv.tir.annotations import SEGMENTS, mark_segments
from tvmconv.tir.general.record_vector_code import NO_SCALABLE_FORM
from tvmconv.tir.general.rewrite import rebuilt
from tvmconv.tir.pipeline import compile_function
from tvmconv.tir.sve.vectorize_pixels import VectorizePixels

SCALABLE = MACHINES["aarch64+sve"]
PIXELS = 10


def compiled(apart: int) -> Assembly:
    """Twice the input plus one weight, of pixels so many values apart in the input."""
    x = te.placeholder((PIXELS * apart,), name="x")
    w = te.placeholder((1, 4), name="w")
    y = te.compute((PIXELS, 4), lambda p, c: x[p * apart + c] * 2.0 + w[0, c], name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, w, y]))
    pixel, lane = schedule.get_loops(schedule.get_sblock("y"))
    schedule.vectorize(lane)
    mark_segments(schedule, pixel, 2)
    func = schedule.mod["main"].with_attr("global_symbol", "main")
    return assembly(compile_function(func, SCALABLE))


def test_adjacent_pixels_are_computed_together_and_weights_repeated() -> None:
    code = compiled(4)
    for instruction in ("whilelt", "ld1rqw", "ld1w", "st1w"):
        assert code.count(instruction), instruction


@pytest.mark.parametrize("apart", [8, 12])
def test_pixels_with_gaps_are_gathered_in_pairs_of_values(apart: int) -> None:
    code = compiled(apart)
    assert code.count("ld1d") == code.count("st1w") == 2
    assert not code.count("ld1w")


@pytest.mark.parametrize("apart", [6, 9])
def test_pixels_that_are_no_whole_segments_apart_stay_neon_code(apart: int) -> None:
    code = compiled(apart)
    assert not code.count("st1w")
    assert code.has(r"\.4s")


def _pixels(*marks: int, apart: int = 4) -> Any:
    """The product of each pixel's four channels and four weights; ``marks`` of its loop."""
    annotations = {SEGMENTS: list(marks)} if marks else {}

    @T.prim_func(private=True, s_tir=True)
    def pixels(
        x: T.Buffer((10 * apart,), "float32"),
        w: T.Buffer((4,), "float32"),
        y: T.Buffer((40,), "float32"),
    ):
        for p in T.serial(10, annotations=annotations):
            y[T.Ramp(p * 4, 1, 4)] = x[T.Ramp(p * apart, 1, 4)] * w[T.Ramp(0, 1, 4)]

    return pixels


def existing(first: Any) -> Any:
    """The lanes from a pixel on that are channels of the ten pixels."""
    return llvm("boolxvscalex4", "aarch64.sve.whilelt", first * 4, 40)


def four(buffer: Any, first: Any) -> Any:
    """The address of the channels of a pixel."""
    return tirx.address_of(tirx.BufferLoad(buffer, [first * 4]))


def repeated(w: Any) -> Any:
    """Four weights in each segment of a vector."""
    everywhere = llvm("boolxvscalex4", "aarch64.sve.ptrue", 31)
    return llvm("float32xvscalex4", "aarch64.sve.ld1rq", everywhere, four(w, 0))


def product(x: Any, w: Any, first: Any) -> Any:
    """A vector of pixels times the weights."""
    pixels = llvm("float32xvscalex4", "aarch64.sve.ld1", existing(first), four(x, first))
    return pixels * repeated(w)


def stored(value: Any, y: Any, first: Any) -> Any:
    return tirx.call_llvm_intrin(
        "void", "llvm.aarch64.sve.st1", value, existing(first), four(y, first)
    )


def test_an_iteration_takes_as_many_pixels_as_its_vectors_hold():
    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((40,), "float32"), w: T.Buffer((4,), "float32"), y: T.Buffer((40,), "float32")
    ):
        for tile in range(10):
            T.evaluate(stored(product(x, w, tile * (2 * T.vscale())), y, tile * (2 * T.vscale())))
            T.evaluate(
                stored(
                    product(x, w, tile * (2 * T.vscale()) + T.vscale()),
                    y,
                    tile * (2 * T.vscale()) + T.vscale(),
                )
            )

    # TVMScript would simplify the number of tiles
    two = tirx.IntImm("int32", 2) * tirx.vscale()
    tiles = tirx.floordiv(tirx.IntImm("int32", 10) + two - 1, two)
    body = rebuilt(expected.body, extent=tiles)
    check(VectorizePixels(), _pixels(2, 0), expected.with_body(body))


@pytest.mark.parametrize("pixels, masked", [(10, 2), (100, 4)])
def test_long_loops_mask_the_last_tile_only(pixels: int, masked: int) -> None:
    """Two vectors a tile: a short loop masks both; a long one has two tiles, one of them whole."""

    @T.prim_func(private=True, s_tir=True)
    def doubled(x: T.Buffer((pixels * 4,), "float32"), y: T.Buffer((pixels * 4,), "float32")):
        for p in T.serial(pixels, annotations={SEGMENTS: [2, 0]}):
            y[T.Ramp(p * 4, 1, 4)] = x[T.Ramp(p * 4, 1, 4)] * T.Broadcast(T.float32(2), 4)

    text = str(VectorizePixels()(tvm.IRModule({"main": doubled})))
    assert text.count("sve.st1") == masked
    # the masks of a load and of a store
    assert text.count("sve.whilelt") == 2 * 2
    assert text.count("sve.ptrue") == (0 if masked == 2 else 2 * 2)


def test_an_unmarked_loop_stays():
    check_same(VectorizePixels(), _pixels())


def test_pixels_inside_a_segment_stay_and_the_function_says_why():
    reason = "positions with a stride of p * 6 in x"
    expected = _pixels(apart=6).with_attr(NO_SCALABLE_FORM, reason)
    check(VectorizePixels(), _pixels(2, 0, apart=6), expected)
