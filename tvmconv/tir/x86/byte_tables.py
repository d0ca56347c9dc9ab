"""Tables of 256 bytes read by AVX2's ``vpshufb`` or AVX-512's ``vpermi2b``."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.byte_tables import LANE, byte_table_pass, entries, first, spread


def ByteTables(values: int) -> Any:
    """A pass that finds values in a table of 256 bytes, 64 or 32 of them at a time.

    Pattern: a vector of values found in a table (:mod:`tvmconv.operators.lookup`).

    Rewrite: with AVX-512 VBMI, for 64 values, two ``vpermi2b`` (128 entries each) and a choice by
    the highest bit; with AVX2, for 32, sixteen ``vpshufb`` (16 entries each, 0 for other bits).

    Why here: after VectorizeLoop a value is a vector.
    """
    return byte_table_pass("x86.ByteTables", values, _FORMS[values])


def _by_pairs(table: Any, bits: Any) -> Any:
    """``vpermi2b``."""
    from tvm import tirx

    name = "llvm.x86.avx512.vpermi2var.qi.512"
    quarters = [entries(table, 64 * i, 64) for i in range(4)]
    low, high = (
        tirx.call_llvm_pure_intrin("int8x64", name, quarters[i], bits, quarters[i + 1])
        for i in (0, 2)
    )
    return tirx.Select(bits < spread(0, 64), high, low)


def _by_sixteenths(table: Any, bits: Any) -> Any:
    """``vpshufb``: entries whose high four bits are those of a part have the highest bit clear."""
    from tvm import tirx

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


# values at a time -> how they are found
_FORMS = {64: _by_pairs, 32: _by_sixteenths}
