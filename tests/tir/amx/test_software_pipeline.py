"""The epilogue of a group of tiles among the products of the next group."""

from __future__ import annotations

from typing import Any

from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, fetch, instruction
from tvmconv.tir.amx.software_pipeline import SoftwarePipeline
from tvmconv.tir.annotations import TILE_PANEL


def _groups(count: int) -> Any:
    @T.prim_func(private=True, s_tir=True)
    def groups(
        data: T.Buffer((4096,), "uint8"),
        weight: T.Buffer((8192,), "int8"),
        out: T.Buffer((4096,), "int32"),
    ):
        kept = T.alloc_buffer((256,), "int32")
        for g in range(count):
            T.evaluate(instruction("tilezero", T.uint8(0)))
            T.evaluate(instruction("tileloadd64", T.uint8(1), T.address_of(weight[0]), T.int64(64)))
            T.evaluate(
                instruction("tileloadd64", T.uint8(2), T.address_of(data[g * 1024]), T.int64(64))
            )
            T.evaluate(instruction("tdpbusd", T.uint8(0), T.uint8(2), T.uint8(1)))
            T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(kept[0]), T.int64(64)))
            out[g * 256] = kept[0] + 1
            out[g * 256 + 1] = kept[1] + 1

    return groups


def test_the_next_group_is_multiplied_among_the_statements_of_the_epilogue():
    @T.prim_func(private=True, s_tir=True)
    def expected(
        data: T.Buffer((4096,), "uint8"),
        weight: T.Buffer((8192,), "int8"),
        out: T.Buffer((4096,), "int32"),
    ):
        kept = T.alloc_buffer((256,), "int32")
        T.evaluate(instruction("tilezero", T.uint8(0)))
        T.evaluate(instruction("tileloadd64", T.uint8(1), T.address_of(weight[0]), T.int64(64)))
        T.evaluate(
            instruction("tileloadd64", T.uint8(2), T.address_of(data[T.Mul(0, 1024)]), T.int64(64))
        )
        T.evaluate(instruction("tdpbusd", T.uint8(0), T.uint8(2), T.uint8(1)))
        T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(kept[0]), T.int64(64)))
        for g in range(2):
            T.evaluate(instruction("tilezero", T.uint8(0)))
            T.evaluate(instruction("tileloadd64", T.uint8(1), T.address_of(weight[0]), T.int64(64)))
            out[g * 256] = kept[0] + 1
            T.evaluate(
                instruction(
                    "tileloadd64", T.uint8(2), T.address_of(data[(g + 1) * 1024]), T.int64(64)
                )
            )
            T.evaluate(instruction("tdpbusd", T.uint8(0), T.uint8(2), T.uint8(1)))
            out[g * 256 + 1] = kept[1] + 1
            T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(kept[0]), T.int64(64)))
        out[T.Mul(2, 256)] = kept[0] + 1
        out[T.Mul(2, 256) + 1] = kept[1] + 1

    check(SoftwarePipeline(), _groups(3), expected)


def test_groups_prefetch_a_share_of_the_next_panel_each():
    """Each of 16 groups fetches one cache line of a tile of weights."""

    @T.prim_func(private=True, s_tir=True)
    def before(weight: T.Buffer((2048,), "int8"), out: T.Buffer((512,), "int32")):
        for _ in T.serial(2, annotations={TILE_PANEL: 16}):
            T.evaluate(instruction("tileloadd64", T.uint8(1), T.address_of(weight[0]), T.int64(64)))
            T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(out[0]), T.int64(64)))
            out[256] = 1

    @T.prim_func(private=True, s_tir=True)
    def expected(weight: T.Buffer((2048,), "int8"), out: T.Buffer((512,), "int32")):
        T.evaluate(instruction("tileloadd64", T.uint8(1), T.address_of(weight[0]), T.int64(64)))
        T.evaluate(fetch(weight[1024 + T.FloorMod(0, 16) * 64], 2))
        T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(out[0]), T.int64(64)))
        for g in range(1):
            T.evaluate(instruction("tileloadd64", T.uint8(1), T.address_of(weight[0]), T.int64(64)))
            T.evaluate(fetch(weight[1024 + (g + 1) % 16 * 64], 2))
            out[256] = 1
            T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(out[0]), T.int64(64)))
        out[256] = 1

    check(SoftwarePipeline(), before, expected)


def test_a_group_alone_stays():
    check_same(SoftwarePipeline(), _groups(1))
