"""Tables of 256 bytes, read for a vector at once by instructions that permute bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.tir.general.rewrite import function_pass, repeated

# attribute of functions: which of the forms below the processor has
PERMUTES = "tvmconv.permutes_bytes"
_LANE = 16


def Lookups() -> Any:
    """A pass that turns the operator of :mod:`tvmconv.operators.lookup` into instructions.

    Pattern: a vector of values found in a table.

    Rewrite: with AVX-512 VBMI two ``vpermi2b`` (each 128 entries) and a choice by the highest bit
    for 64 values; with AVX2 sixteen ``vpshufb`` (16 entries each, and 0 for other bits) for 32;
    with NEON four ``tbl`` of four registers for 16. Other vectors and scalars are loads.

    Why here: behind VectorizeLoop a value is a vector.
    """
    return function_pass("Lookups", _lookups)


def _lookups(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir

    from tvmconv.operators.lookup import FOUND

    form = int(func.attrs.get(PERMUTES) or 0) if func.attrs else 0
    found = False

    def look(call: Any) -> Any:
        nonlocal found
        if not str(getattr(call.op, "name", "")).startswith(FOUND):
            return call
        found = True
        return _found(call, form)

    body = tvm_ffi.structural_map(func.body, (ir.Call, look))
    return func.with_body(body) if found else func


def _found(call: Any, form: int) -> Any:
    from tvm import tirx

    first, bits = call.args
    first = repeated(first)
    table, lanes = first.source, int(bits.ty.dtype.lanes)
    if form not in _FORMS or lanes < _LANE or lanes % _LANE:
        kind = "int32" if lanes == 1 else f"int32x{lanes}"
        return tirx.BufferLoad(table, [tirx.Cast(kind, bits)])
    parts = []
    for begin in range(0, lanes, form):
        count = min(form, lanes - begin)
        # in place of elements that are missing behind, some again
        places = [tirx.IntImm("int32", begin + i % count) for i in range(form)]
        part = tirx.Shuffle([bits] * -(-form // lanes), places)
        parts.append(_FORMS[form](table, tirx.reinterpret(f"int8x{form}", part)))
    result = parts[0] if lanes == form else _first(parts, lanes)
    dtype = str(table.dtype)
    return result if dtype == "int8" else tirx.reinterpret(f"{dtype}x{lanes}", result)


def _first(vectors: Sequence[Any], count: int) -> Any:
    """The first elements of vectors behind each other."""
    from tvm import tirx

    return tirx.Shuffle(list(vectors), [tirx.IntImm("int32", i) for i in range(count)])


def _entries(table: Any, first: int, count: int) -> Any:
    """Entries of the table, as a vector of int8."""
    from tvm import tirx

    ramp = tirx.Ramp(tirx.IntImm("int32", first), tirx.IntImm("int32", 1), count)
    return tirx.reinterpret(f"int8x{count}", tirx.BufferLoad(table, [ramp]))


def _spread(value: int, lanes: int) -> Any:
    from tvm import tirx

    return tirx.Broadcast(tirx.const(value, "int8"), lanes)


def _by_pairs(table: Any, bits: Any) -> Any:
    """``vpermi2b``."""
    from tvm import tirx

    name = "llvm.x86.avx512.vpermi2var.qi.512"
    quarters = [_entries(table, 64 * i, 64) for i in range(4)]
    low, high = (
        tirx.call_llvm_pure_intrin("int8x64", name, quarters[i], bits, quarters[i + 1])
        for i in (0, 2)
    )
    return tirx.Select(bits < _spread(0, 64), high, low)


def _by_sixteenths(table: Any, bits: Any) -> Any:
    """``vpshufb``: entries whose high four bits are those of a part have the highest bit clear."""
    from tvm import tirx

    result: Any = None
    for part in range(16):
        entries = _entries(table, _LANE * part, _LANE)
        both = _first([entries, entries], 32)
        high = _LANE * part
        moved = tirx.bitwise_xor(bits, _spread(high - 256 if high > 127 else high, 32))
        inside = tirx.call_llvm_pure_intrin("int8x32", "llvm.uadd.sat", moved, _spread(0x70, 32))
        value = tirx.call_llvm_pure_intrin("int8x32", "llvm.x86.avx2.pshuf.b", both, inside)
        result = value if result is None else tirx.bitwise_or(result, value)
    return result


def _by_quarters(table: Any, bits: Any) -> Any:
    """``tbl``, which gives 0 beyond its 64 entries."""
    from tvm import tirx

    result: Any = None
    for part in range(4):
        registers = [_entries(table, 64 * part + _LANE * i, _LANE) for i in range(4)]
        place = bits - _spread(64 * part - 256 * (part > 1), _LANE) if part else bits
        name = "llvm.aarch64.neon.tbl4.v16i8"
        value = tirx.call_llvm_pure_intrin("int8x16", name, *registers, place)
        result = value if result is None else tirx.bitwise_or(result, value)
    return result


# values at a time -> how they are found
_FORMS = {64: _by_pairs, 32: _by_sixteenths, 16: _by_quarters}
