"""Starts unrolled sums with their first term in place of zero."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.conditions import is_zero
from tvmconv.tir.general.rewrite import function_pass, nodes_of, repeated

# a local buffer and one of its elements; None if the index is not a constant
Place = tuple[int, int | None]


def FirstTerms() -> Any:
    """A pass that initializes a sum with its first term.

    Pattern: a sequence of stores that sets an element of a local buffer to zero. The next statement
    that mentions the element adds something to it.

    Rewrite: the second store stores the addend, and the first store is removed. If the first term
    is -0, the sum is -0, not 0.

    Why here: after reductions are unrolled. LLVM may not drop the zero, because an FMA with an
    addend 0 gives 0 for a product -0. A plain product saves one instruction for each sum. On x86-64
    zeroing a register is free.
    """
    return function_pass("neon.FirstTerms", _first_terms)


def _first_terms(func: Any) -> Any:
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _begun)))


def _begun(sequence: Any) -> Any:
    parts = list(sequence.seq)
    # elements that are zero -> the statement that set them
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
    return tirx.stmt_seq(*kept)


def _place(buffer: Any, indices: Any) -> Place | None:
    """The element of a local buffer, which is one vector; None for other buffers."""
    if str(buffer.scope()) != "local":
        return None
    constant = len(indices) == 1 and isinstance(indices[0], tirx.IntImm)
    return hash(buffer), int(indices[0]) if constant else None


def _forget(zeros: dict[Place, int], used: Place | None) -> None:
    """Drop elements that may no longer be zero, or that are read."""
    if used is None:
        return
    for place in list(zeros) if used[1] is None else [used]:
        if place[0] == used[0]:
            zeros.pop(place, None)


def _is_zero(value: Any) -> bool:
    number = repeated(value)
    return is_zero(number) and str(number.ty.dtype) == "float32"


def _term(store: Any, place: Place | None) -> Any:
    """The value that a store adds to its element; None for other stores."""
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
    """The elements of local buffers that an expression reads."""
    found = nodes_of(value, ir.TensorLoad)
    return [_place(load.source, load.indices) for load in found]
