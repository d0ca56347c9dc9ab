"""Lookup in tables of 256 bytes by AVX2's ``vpshufb`` or AVX-512's ``vpermi2b``."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.byte_tables import LANE, byte_table_pass, entries, first, spread


def ByteTables(values: int) -> Any:
    """A pass that looks up 64 or 32 values at a time in a table of 256 bytes.

    Pattern: a vector lookup in a table (:mod:`tvmconv.operators.lookup`).

    Rewrite: for 64 values (AVX-512 VBMI), two ``vpermi2b`` of 128 entries each and a selection by
    the highest bit. For 32 values (AVX2), sixteen ``vpshufb`` of 16 entries each, which return 0
    for other indices.

    Why here: after VectorizeLoop, when lookups are vectors.
    """
    return byte_table_pass("x86.ByteTables", values, _FORMS[values])


def _by_vpermi2b(table: Any, bits: Any) -> Any:
    """Two ``vpermi2b``, each of half the table."""
    name = "llvm.x86.avx512.vpermi2var.qi.512"
    quarters = [entries(table, 64 * i, 64) for i in range(4)]
    low, high = (
        tirx.call_llvm_pure_intrin("int8x64", name, quarters[i], bits, quarters[i + 1])
        for i in (0, 2)
    )
    return tirx.Select(bits < spread(0, 64), high, low)


def _by_vpshufb(table: Any, bits: Any) -> Any:
    """Sixteen ``vpshufb``; an index outside of its part gets the highest bit, which reads 0."""
    result: Any = None
    for part in range(16):
        part_of_table = entries(table, LANE * part, LANE)
        both = first([part_of_table, part_of_table], 32)
        high = LANE * part
        moved = tirx.bitwise_xor(bits, spread(high - 256 if high > 127 else high, 32))
        inside = tirx.call_llvm_pure_intrin("int8x32", "llvm.uadd.sat", moved, spread(0x70, 32))
        value = tirx.call_llvm_pure_intrin("int8x32", "llvm.x86.avx2.pshuf.b", both, inside)
        result = value if result is None else tirx.bitwise_or(result, value)
    return result


# values at a time -> the lookup
_FORMS = {64: _by_vpermi2b, 32: _by_vpshufb}
