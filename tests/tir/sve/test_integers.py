"""INT8 products and results in loops over scalable vectors; four positions are a segment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, llvm
from tvmconv.tir.annotations import SEGMENTS
from tvmconv.tir.general.record_vector_code import NO_SCALABLE_FORM
from tvmconv.tir.sve.vectorize_pixels import VectorizePixels


def narrowed(values: Sequence[Any], order: Sequence[int] = range(8), name: str = "sqxtn") -> Any:
    """The code that NEON's pass ``Narrowing`` makes of four vectors."""
    shorts = [llvm("int16x4", "aarch64.neon.sqxtn.v4i16", value) for value in values]
    zero_point = tirx.Broadcast(tirx.const(3, "int16"), 8)
    pairs = (tirx.Shuffle(shorts[i : i + 2], list(order)) for i in (0, 2))
    halves = (llvm("int16x8", "sadd.sat", pair, zero_point) for pair in pairs)
    both = [llvm("int8x8", f"aarch64.neon.{name}.v8i8", half) for half in halves]
    return tirx.Shuffle(both, list(range(16)))


def products(x: Any, w: Any, first: Any) -> list[Any]:
    """Four outputs of each of four positions."""
    data, weight = (
        tirx.reinterpret("int32x4", tirx.BufferLoad(buffer, [tirx.Ramp(index, 1, 16)]))
        for buffer, index in ((x, first), (w, tirx.const(0)))
    )
    zeros = tirx.Broadcast(tirx.const(0, "int32"), 4)
    return [
        tirx.call_pure_extern("int32x4", f"tvmconv.sve_sdot_4_{lane}", zeros, weight, data)
        for lane in range(4)
    ]


def bytes_of(x: Any, first: Any) -> list[Any]:
    """The bytes of each of four positions."""
    parts = (tirx.BufferLoad(x, [tirx.Ramp(first + 4 * i, 1, 4)]) for i in range(4))
    return [tirx.Cast("int32x4", part) for part in parts]


def loop(made: Any, *marks: int) -> Any:
    """Four groups of four positions, from the data and weights; ``marks`` of the loop."""
    annotations = {SEGMENTS: list(marks)} if marks else {}

    @T.prim_func(private=True, s_tir=True)
    def positions(
        x: T.Buffer((180,), "int8"), w: T.Buffer((16,), "int8"), y: T.Buffer((160,), "int8")
    ):
        for p in T.serial(4, annotations=annotations):
            y[T.Ramp(p * 16, 1, 16)] = made(x, w, p * 16)

    return positions


def made_of(func: Any) -> str:
    return str(VectorizePixels()(tvm.IRModule({"main": func})))


def test_dwords_are_multiplied_by_lanes_and_results_become_bytes():
    text = made_of(loop(lambda x, w, first: narrowed(products(x, w, first)), 1, 0))
    counts = {"sdot.lane": 4, "uzp1": 3, "tbl": 1, "sadd.sat": 4, "sve.st1": 1, "neon": 0}
    assert {name: text.count(name) for name in counts} == counts
    assert "int8x16" not in text


@pytest.mark.parametrize("name, ends", [("sqxtn", (-128, 127)), ("sqxtun", (0, 255))])
def test_the_last_instruction_says_which_numbers_results_have(name: str, ends: Any):
    text = made_of(loop(lambda x, w, first: narrowed(products(x, w, first), name=name), 1, 0))
    for end in ends:
        assert text.count(f"T.Broadcast({end}, T.vscale() * 4)") >= 4


def test_bytes_of_a_residual_are_extended_by_a_product():
    text = made_of(loop(lambda x, w, first: narrowed(bytes_of(x, first)), 1, 0))
    assert text.count("sdot.lane") == 4
    assert "int8x4" not in text


@pytest.mark.parametrize(
    "made, reason",
    [
        (
            lambda x, w, first: narrowed(products(x, w, first), order=(0, 2, 4, 6, 1, 3, 5, 7)),
            "a shuffle of lanes",
        ),
        (lambda x, w, first: narrowed(bytes_of(x, first + 2)), "bytes of x that start inside"),
        (lambda x, w, first: narrowed(products(x, w, first * 2)), "positions with a stride"),
    ],
)
def test_other_bytes_stay_neon_code_and_the_function_says_why(made: Any, reason: str):
    marked = loop(made, 1, 0)
    done = VectorizePixels()(tvm.IRModule({"main": marked}))["main"]
    said = str(done.attrs[NO_SCALABLE_FORM])
    assert said.startswith(reason)
    check(VectorizePixels(), marked, loop(made).with_attr(NO_SCALABLE_FORM, said))
