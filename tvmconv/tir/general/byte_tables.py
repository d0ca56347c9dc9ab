"""Lookup in tables of 256 bytes for whole vectors: the part that all families share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir, tirx

from tvmconv.operators.lookup import FOUND
from tvmconv.tir.general.rewrite import function_pass, map_nodes, repeated

# bytes of a register lane, within which instructions permute
LANE = 16
# (table, indices as a vector of int8) -> the entries as a vector of int8
Form = Callable[[Any, Any], Any]


def ByteTables() -> Any:
    """A pass that reads tables of 256 bytes by plain loads, for families without a better form.

    Pattern: a scalar or vector lookup in a table (:mod:`tvmconv.operators.lookup`).

    Rewrite: a load whose index is the value.

    Why here: it replaces the passes that instruction families run at this stage.
    """
    return byte_table_pass("ByteTables")


def byte_table_pass(name: str, values: int = 0, form: Form | None = None) -> Any:
    """A pass that lowers :mod:`tvmconv.operators.lookup` with the instructions of a family.

    ``form`` reads ``values`` entries at a time. Scalars, short vectors and families without
    ``form`` use plain loads.
    """
    return function_pass(name, lambda func: _rewritten(func, values, form))


def _rewritten(func: Any, values: int, form: Form | None) -> Any:
    def look(call: Any) -> Any:
        if not str(getattr(call.op, "name", "")).startswith(FOUND):
            return call
        return _found(call, values, form)

    return map_nodes(func, (ir.Call, look))


def _found(call: Any, values: int, form: Form | None) -> Any:
    begin, bits = call.args
    table, lanes = repeated(begin).source, int(bits.ty.dtype.lanes)
    if form is None or lanes < LANE or lanes % LANE:
        kind = "int32" if lanes == 1 else f"int32x{lanes}"
        return tirx.BufferLoad(table, [tirx.Cast(kind, bits)])
    parts = []
    for start in range(0, lanes, values):
        count = min(values, lanes - start)
        # the last part repeats elements in place of the missing ones
        places = [tirx.IntImm("int32", start + i % count) for i in range(values)]
        part = tirx.Shuffle([bits] * -(-values // lanes), places)
        parts.append(form(table, tirx.reinterpret(f"int8x{values}", part)))
    result = parts[0] if lanes == values else first(parts, lanes)
    dtype = str(table.dtype)
    return result if dtype == "int8" else tirx.reinterpret(f"{dtype}x{lanes}", result)


def first(vectors: Sequence[Any], count: int) -> Any:
    """The first elements of concatenated vectors."""
    return tirx.Shuffle(list(vectors), [tirx.IntImm("int32", i) for i in range(count)])


def entries(table: Any, start: int, count: int) -> Any:
    """Entries of the table, as a vector of int8."""
    ramp = tirx.Ramp(tirx.IntImm("int32", start), tirx.IntImm("int32", 1), count)
    return tirx.reinterpret(f"int8x{count}", tirx.BufferLoad(table, [ramp]))


def spread(value: int, lanes: int) -> Any:
    """A vector of int8 that repeats a number."""
    return tirx.Broadcast(tirx.const(value, "int8"), lanes)
