"""Lookup in tables of 256 bytes by NEON's ``tbl``."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.byte_tables import LANE, byte_table_pass, entries, spread


def ByteTables() -> Any:
    """A pass that looks up 16 values at a time in a table of 256 bytes.

    Pattern: a vector lookup in a table (:mod:`tvmconv.operators.lookup`).

    Rewrite: four ``tbl`` of four registers each.

    Why here: after VectorizeLoop, when lookups are vectors.
    """
    return byte_table_pass("neon.ByteTables", LANE, _by_quarters)


def _by_quarters(table: Any, bits: Any) -> Any:
    """One ``tbl`` for each quarter of the table; it returns 0 beyond its 64 entries."""
    result: Any = None
    for part in range(4):
        registers = [entries(table, 64 * part + LANE * i, LANE) for i in range(4)]
        place = bits - spread(64 * part - 256 * (part > 1), LANE) if part else bits
        name = "llvm.aarch64.neon.tbl4.v16i8"
        value = tirx.call_llvm_pure_intrin("int8x16", name, *registers, place)
        result = value if result is None else tirx.bitwise_or(result, value)
    return result
