"""Tables of bytes read by NEON's ``tbl``."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tests.tir.rewrites import check, llvm, operator
from tvmconv.tir.neon.byte_tables import ByteTables


def quarter(table: Any, part: int, place: Any) -> Any:
    """The entries of one quarter of a table, and 0 for other indices."""
    loads = (tirx.BufferLoad(table, [tirx.Ramp(64 * part + 16 * i, 1, 16)]) for i in range(4))
    return llvm("int8x16", "aarch64.neon.tbl4.v16i8", *loads, place)


def test_four_quarters_are_joined():
    @T.prim_func(private=True, s_tir=True)
    def before(
        x: T.Buffer((16,), "int8"), table: T.Buffer((256,), "int8"), y: T.Buffer((16,), "int8")
    ):
        y[T.Ramp(0, 1, 16)] = operator(
            "int8x16", "found_int8", T.Broadcast(table[0], 16), x[T.Ramp(0, 1, 16)]
        )

    def place(x: Any) -> Any:
        return tirx.Shuffle([tirx.BufferLoad(x, [tirx.Ramp(0, 1, 16)])], list(range(16)))

    @T.prim_func(private=True, s_tir=True)
    def expected(
        x: T.Buffer((16,), "int8"), table: T.Buffer((256,), "int8"), y: T.Buffer((16,), "int8")
    ):
        y[T.Ramp(0, 1, 16)] = (
            quarter(table, 0, place(x))
            | quarter(table, 1, place(x) - T.Broadcast(T.int8(64), 16))
            | quarter(table, 2, place(x) - T.Broadcast(T.int8(-128), 16))
            | quarter(table, 3, place(x) - T.Broadcast(T.int8(-64), 16))
        )

    check(ByteTables(), before, expected)
