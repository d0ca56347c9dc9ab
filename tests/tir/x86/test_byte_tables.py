"""Tables of bytes as permutations of x86."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, llvm, operator
from tvmconv.tir.x86.byte_tables import ByteTables


def indices(x: Any, lanes: int) -> Any:
    """So many values, as the passes take them from longer vectors."""
    values = tirx.BufferLoad(x, [tirx.Ramp(0, 1, lanes)])
    return tirx.reinterpret(f"int8x{lanes}", tirx.Shuffle([values], list(range(lanes))))


def sixteen(x: Any, table: Any, part: int) -> Any:
    """The entries of one sixteenth of a table, and 0 for other indices."""
    entries = tirx.BufferLoad(table, [tirx.Ramp(16 * part, 1, 16)])
    high = 16 * part - 256 * (part > 7)
    return llvm(
        "int8x32",
        "x86.avx2.pshuf.b",
        tirx.Shuffle([entries, entries], list(range(32))),
        llvm(
            "int8x32",
            "uadd.sat",
            tirx.bitwise_xor(indices(x, 32), tirx.Broadcast(tirx.const(high, "int8"), 32)),
            tirx.Broadcast(tirx.const(0x70, "int8"), 32),
        ),
    )


def test_avx512_chooses_between_permutations_of_128_entries():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((64,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((64,), "int8")
    ):
        y[T.Ramp(0, 1, 64)] = operator(
            "int8x64", "found_int8", T.Broadcast(table[0], 64), x[T.Ramp(0, 1, 64)]
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((64,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((64,), "int8")
    ):
        y[T.Ramp(0, 1, 64)] = T.Select(
            indices(x, 64) < T.Broadcast(T.int8(0), 64),
            llvm(
                "int8x64",
                "x86.avx512.vpermi2var.qi.512",
                table[T.Ramp(128, 1, 64)],
                indices(x, 64),
                table[T.Ramp(192, 1, 64)],
            ),
            llvm(
                "int8x64",
                "x86.avx512.vpermi2var.qi.512",
                table[T.Ramp(0, 1, 64)],
                indices(x, 64),
                table[T.Ramp(64, 1, 64)],
            ),
        )

    check(ByteTables(64), before, expected)


def test_avx2_joins_permutations_of_sixteen_entries():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((32,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((32,), "int8")
    ):
        y[T.Ramp(0, 1, 32)] = operator(
            "int8x32", "found_int8", T.Broadcast(table[0], 32), x[T.Ramp(0, 1, 32)]
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((32,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((32,), "int8")
    ):
        y[T.Ramp(0, 1, 32)] = (
            sixteen(x, table, 0)
            | sixteen(x, table, 1)
            | sixteen(x, table, 2)
            | sixteen(x, table, 3)
            | sixteen(x, table, 4)
            | sixteen(x, table, 5)
            | sixteen(x, table, 6)
            | sixteen(x, table, 7)
            | sixteen(x, table, 8)
            | sixteen(x, table, 9)
            | sixteen(x, table, 10)
            | sixteen(x, table, 11)
            | sixteen(x, table, 12)
            | sixteen(x, table, 13)
            | sixteen(x, table, 14)
            | sixteen(x, table, 15)
        )

    check(ByteTables(32), before, expected)


def test_short_vectors_are_loads():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((8,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((8,), "int8")
    ):
        y[T.Ramp(0, 1, 8)] = operator(
            "int8x8", "found_int8", T.Broadcast(table[0], 8), x[T.Ramp(0, 1, 8)]
        )

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((8,), "uint8"), table: T.Buffer((256,), "int8"), y: T.Buffer((8,), "int8")
    ):
        y[T.Ramp(0, 1, 8)] = table[T.Cast("int32x8", x[T.Ramp(0, 1, 8)])]

    check(ByteTables(32), before, expected)
