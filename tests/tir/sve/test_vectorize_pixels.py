"""Loops over pixels by scalable vectors: the code they become, and loops that stay as they are."""

from __future__ import annotations

import pytest
import tvm
from tvm import te

from tvmconv.machines.presets import MACHINES
from tvmconv.tir.annotations import mark_segments
from tvmconv.tir.pipeline import compile_function

SCALABLE = MACHINES["aarch64+sve"]
PIXELS = 10


def assembly(apart: int) -> str:
    """Twice the input plus one weight, of pixels so many values apart in the input."""
    x = te.placeholder((PIXELS * apart,), name="x")
    w = te.placeholder((1, 4), name="w")
    y = te.compute((PIXELS, 4), lambda p, c: x[p * apart + c] * 2.0 + w[0, c], name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, w, y]))
    pixel, lane = schedule.get_loops(schedule.get_sblock("y"))
    schedule.vectorize(lane)
    mark_segments(schedule, pixel, 2)
    func = schedule.mod["main"].with_attr("global_symbol", "main")
    return str(compile_function(func, SCALABLE).inspect_source("s"))


def test_neighbours_are_computed_together_and_weights_repeated() -> None:
    text = assembly(4)
    for instruction in ("whilelt", "ld1rqw", "ld1w", "st1w"):
        assert text.count(f"\t{instruction}\t"), instruction


@pytest.mark.parametrize("apart", [8, 12])
def test_pixels_that_lie_apart_are_gathered_in_pairs_of_values(apart: int) -> None:
    text = assembly(apart)
    assert text.count("\tld1d\t") == text.count("\tst1w\t") == 2
    assert "\tld1w\t" not in text


@pytest.mark.parametrize("apart", [6, 9])
def test_pixels_that_are_no_whole_segments_apart_stay_neon_code(apart: int) -> None:
    text = assembly(apart)
    assert "\tst1w\t" not in text
    assert ".4s" in text
