"""Tiles in registers: which register holds what, and what is loaded again."""

from __future__ import annotations

import pytest
from tvm.script import tirx as T

from tests.tir.rewrites import check, check_same, instruction, tile_product, updates
from tvmconv.tir.amx.allocate_tiles import AllocateTiles, TilePermission
from tvmconv.tir.general.rewrite import transformed


def row_bytes(first: bool, second: bool = False) -> int:
    """The dword of two registers' rows of 64 bytes."""
    return 64 * first + (64 << 16) * second


def test_accumulators_weights_and_pixels_take_registers_in_order():
    """Two tiles of accumulators share one tile of weights."""

    @T.prim_func(private=True, s_tir=True)
    def before(
        data: T.Buffer((2048,), "uint8"),
        weight: T.Buffer((1024,), "int8"),
        out: T.Buffer((512,), "int32"),
    ):
        sums = T.alloc_buffer((512,), "int32", scope="local")
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[0]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[256]), 64))
        T.evaluate(tile_product(sums[0], data[0], 64, weight[0]))
        T.evaluate(tile_product(sums[256], data[1024], 64, weight[0]))
        T.evaluate(updates("tile_store", 14, T.address_of(sums[0]), 64, T.address_of(out[0]), 64))
        T.evaluate(
            updates("tile_store", 14, T.address_of(sums[256]), 64, T.address_of(out[256]), 64)
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        data: T.Buffer((2048,), "uint8"),
        weight: T.Buffer((1024,), "int8"),
        out: T.Buffer((512,), "int32"),
    ):
        tile_config = T.alloc_buffer(
            (16,), "int32", scope="local", annotations={"disable_lower_builtin": True}
        )
        tile_config[0] = 1
        tile_config[1] = 0
        tile_config[2] = 0
        tile_config[3] = 0
        # bytes of the rows of registers 0 to 4: two of accumulators, weights, two of pixels
        tile_config[4] = row_bytes(True, True)
        tile_config[5] = row_bytes(True, True)
        tile_config[6] = row_bytes(True)
        tile_config[7] = 0
        tile_config[8] = 0
        tile_config[9] = 0
        tile_config[10] = 0
        tile_config[11] = 0
        # rows of registers 0 to 3, then of register 4
        tile_config[12] = 14 | 14 << 8 | 16 << 16 | 14 << 24
        tile_config[13] = 14
        tile_config[14] = 0
        tile_config[15] = 0
        T.evaluate(instruction("ldtilecfg", T.address_of(tile_config[0])))
        T.evaluate(instruction("tilezero", T.uint8(0)))
        T.evaluate(instruction("tilezero", T.uint8(1)))
        T.evaluate(instruction("tileloadd64", T.uint8(2), T.address_of(weight[0]), T.int64(64)))
        T.evaluate(instruction("tileloadd64", T.uint8(3), T.address_of(data[0]), T.int64(64)))
        T.evaluate(instruction("tdpbusd", T.uint8(0), T.uint8(3), T.uint8(2)))
        T.evaluate(instruction("tileloadd64", T.uint8(4), T.address_of(data[1024]), T.int64(64)))
        T.evaluate(instruction("tdpbusd", T.uint8(1), T.uint8(4), T.uint8(2)))
        T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(out[0]), T.int64(64)))
        T.evaluate(instruction("tilestored64", T.uint8(1), T.address_of(out[256]), T.int64(64)))
        T.evaluate(instruction("tilerelease"))

    check(AllocateTiles(), before, expected)


def test_seven_tiles_of_accumulators_leave_no_registers():
    @T.prim_func(private=True, s_tir=True)
    def seven(out: T.Buffer((16,), "int32")):
        sums = T.alloc_buffer((1792,), "int32", scope="local")
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[0]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[256]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[512]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[768]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[1024]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[1280]), 64))
        T.evaluate(updates("tile_begin", 14, T.address_of(sums[1536]), 64))

    with pytest.raises(Exception, match="7 hold accumulators"):
        transformed(seven, AllocateTiles())


def test_functions_with_tiles_ask_for_permission_first():
    @T.prim_func(private=True, s_tir=True)
    def before(out: T.Buffer((256,), "int32")):
        T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(out[0]), T.int64(64)))
        T.evaluate(instruction("tilerelease"))

    @T.prim_func(private=True, s_tir=True)
    def expected(out: T.Buffer((256,), "int32")):
        T.evaluate(T.call_extern("int64", "syscall", T.int64(158), T.int64(0x1023), T.int64(18)))
        T.evaluate(instruction("tilestored64", T.uint8(0), T.address_of(out[0]), T.int64(64)))
        T.evaluate(instruction("tilerelease"))

    check(TilePermission(), before, expected)


def test_functions_without_tiles_stay():
    @T.prim_func(private=True, s_tir=True)
    def plain(x: T.Buffer((1,), "float32")):
        x[0] = T.float32(1)

    check_same(AllocateTiles(), plain)
    check_same(TilePermission(), plain)
