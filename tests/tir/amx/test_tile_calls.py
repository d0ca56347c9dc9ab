"""Loops over the values of a tile: which become calls, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest
import tvm_ffi
from tvm import ir
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, tile_product, updates
from tvmconv.tir.amx.allocate_tiles import AllocateTiles
from tvmconv.tir.amx.tile_calls import BEGIN, PRODUCT, STORE, TileCalls
from tvmconv.tir.annotations import TILE
from tvmconv.tir.general.rewrite import transformed


def group(pixel_bytes: int = 64, lane_words: int = 1) -> Any:
    """One tile of 14 pixels: begun with a bias, one product, stored."""

    @T.prim_func(s_tir=True)
    def main(
        data: T.Buffer((14 * 128,), "uint8"),
        weight: T.Buffer((2048,), "int8"),
        bias: T.Buffer((16,), "int32"),
        out: T.Buffer((14 * 16,), "int32"),
    ):
        sums = T.alloc_buffer((14 * 16,), "int32", scope="local")
        for p in T.serial(14, annotations={TILE: 1}):
            for lane in range(16):
                sums[p * 16 + lane] = bias[lane]
        for p in T.serial(14, annotations={TILE: 1}):
            for lane, word, byte in T.grid(16, 16, 4):
                sums[p * 16 + lane] = sums[p * 16 + lane] + T.Cast(
                    "int32", data[p * pixel_bytes + word * 4 + byte]
                ) * T.Cast("int32", weight[word * 64 + lane * 4 * lane_words + byte])
        for p in T.serial(14, annotations={TILE: 1}):
            for lane in range(16):
                out[p * 16 + lane] = sums[p * 16 + lane]

    return main


def test_a_nest_becomes_a_call_of_first_values_and_distances():
    @T.prim_func(s_tir=True)
    def main(
        data: T.Buffer((14 * 128,), "uint8"),
        weight: T.Buffer((2048,), "int8"),
        bias: T.Buffer((16,), "int32"),
        out: T.Buffer((14 * 16,), "int32"),
    ):
        sums = T.alloc_buffer((14 * 16,), "int32", scope="local")
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[0]), 64, T.address_of(bias[0]), 0))
        T.evaluate(tile_product(sums[0], data[0], 128, weight[0]))
        T.evaluate(updates("tile_store", 14, T.address_of(sums[0]), 64, T.address_of(out[0]), 64))

    check(TileCalls(), group(128), main)


def calls(func: Any) -> list[Any]:
    found: list[Any] = []
    tvm_ffi.structural_walk(func.body, (ir.Call, found.append))
    return [call for call in found if str(getattr(call.op, "name", "")).startswith("tvmconv.tile")]


def test_each_nest_is_one_call_with_the_distance_of_its_rows():
    begin, product, store = calls(transformed(group(128), TileCalls()))
    assert [call.op.name for call in (begin, product, store)] == [BEGIN, PRODUCT, STORE]
    assert all(int(call.args[0]) == 14 for call in (begin, product, store))
    # sums; a bias, which every row has; dwords of pixels and of weights; the output
    assert [int(begin.args[i]) for i in (2, 4)] == [64, 0]
    assert [int(product.args[i]) for i in (2, 4, 6)] == [64, 128, 64]
    assert [int(store.args[i]) for i in (2, 4)] == [64, 64]


def test_values_in_another_layout_are_refused():
    with pytest.raises(Exception, match=r"a tile of weight: its strides are \[0, 8, 64, 1\]"):
        transformed(group(lane_words=2), TileCalls())


def test_sums_leave_no_buffer():
    func = transformed(group(), TileCalls(), AllocateTiles())
    text = func.script()
    assert "sums" not in text
    order = ("ldtilecfg", "tileloadd64", "tdpbusd", "tilestored64", "tilerelease")
    places = [text.index(f"llvm.x86.{name}") for name in order]
    assert places == sorted(places)
    # the bias, weights and pixels
    assert text.count("llvm.x86.tileloadd64") == 3


def test_functions_without_tiles_stay():
    @T.prim_func(s_tir=True)
    def plain(a: T.Buffer((16,), "float32")):
        for i in range(16):
            a[i] = 1.0

    check_same(TileCalls(), plain)
    check_same(AllocateTiles(), plain)
