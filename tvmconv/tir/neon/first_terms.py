"""Sums that are written out, begun with their first term."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import function_pass, repeated

# a local buffer and one of its elements; None for any, where the index is no constant
Place = tuple[int, int | None]


def FirstTerms() -> Any:
    """A pass that lets a sum begin with its first term where both stand in one sequence.

    Pattern: a sequence of stores in which a place of a local buffer
    becomes zero, and is next mentioned by a store that adds something to it.

    Rewrite: the second store has what it adds, the first one is gone. Where the sum would be zero
    and its first term is -0, it is -0, too.

    Why here: reductions are written out just before. LLVM may not leave the zero out, for a
    multiply-add to it makes 0 of -0; a product by itself is one instruction less for each sum. On
    x86-64 a register becomes zero without one.
    """
    return function_pass("neon.FirstTerms", _first_terms)


def _first_terms(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _begun)))


def _begun(sequence: Any) -> Any:
    from tvm import tirx

    parts = list(sequence.seq)
    # places that are zero -> the statement that made them so
    zeros: dict[Place, int] = {}
    for number, part in enumerate(parts):
        if not isinstance(part, tirx.BufferStore):
            zeros.clear()
            continue
        zero = _is_zero(part.value)
        if not zero and not zeros:
            continue
        place = _place(part.buffer, part.indices)
        term = _term(part, place)
        made = zeros.get(place) if term is not None and place is not None else None
        for used in (*_reads(part.value if made is None else term), place):
            _forget(zeros, used)
        if made is not None and place not in _reads(term):
            parts[made] = None
            parts[number] = tirx.BufferStore(part.buffer, term, part.indices)
        elif zero and place is not None and place[1] is not None:
            zeros[place] = number
    kept = [part for part in parts if part is not None]
    if len(kept) == len(parts):
        return sequence
    return tirx.SeqStmt(kept) if len(kept) > 1 else kept[0]


def _place(buffer: Any, indices: Any) -> Place | None:
    """The element of a local buffer, which is one vector; of other buffers None."""
    from tvm import tirx

    if str(buffer.scope()) != "local":
        return None
    constant = len(indices) == 1 and isinstance(indices[0], tirx.IntImm)
    return hash(buffer), int(indices[0]) if constant else None


def _forget(zeros: dict[Place, int], used: Place | None) -> None:
    """Leave out what is no longer known to be zero, or is read as such."""
    if used is None:
        return
    for place in list(zeros) if used[1] is None else [used]:
        if place[0] == used[0]:
            zeros.pop(place, None)


def _is_zero(value: Any) -> bool:
    number = repeated(value)
    return is_zero(number) and str(number.ty.dtype) == "float32"


def _term(store: Any, place: Place | None) -> Any:
    """What a store adds to its place; None of other stores."""
    from tvm import ir, tirx

    total = store.value
    if (
        not place
        or place[1] is None
        or not isinstance(total, tirx.Add)
        or not isinstance(total.a, ir.TensorLoad)
    ):
        return None
    return total.b if _place(total.a.source, total.a.indices) == place else None


def _reads(value: Any) -> list[Place | None]:
    """The places of local buffers that an expression reads."""
    import tvm_ffi
    from tvm import ir

    found: list[Any] = []
    tvm_ffi.structural_walk(value, (ir.TensorLoad, found.append))
    return [_place(load.source, load.indices) for load in found]
