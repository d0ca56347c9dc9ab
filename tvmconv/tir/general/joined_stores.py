"""Joins two strided stores into one interleaved store."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import sym, tirx

from tvmconv.tir.general.rewrite import function_pass


def JoinedStores() -> Any:
    """A pass that joins two stores with stride 2 into one contiguous store.

    Pattern: two consecutive stores to every second element of one buffer, from ``i`` on and from
    ``i + 1`` on.

    Rewrite: one store of both vectors, interleaved.

    Why here: LLVM lowers a store with stride 2 to one store for each element. Such stores follow
    each other once loops are unrolled and vectorized.
    """
    return function_pass("JoinedStores", _joined_stores)


def _joined_stores(func: Any) -> Any:
    def look(sequence: Any) -> Any:
        parts: list[Any] = []
        last: Any = None  # the index of the last part, if that is a store with stride 2
        for statement in sequence.seq:
            index, joined = _alternate(statement), None
            if last is not None and index is not None:
                joined = _joined(parts[-1], last, statement, index)
            if joined is None:
                parts.append(statement)
                last = index
            else:
                parts[-1], last = joined, None
        if len(parts) == len(sequence.seq):
            return sequence
        return tirx.stmt_seq(*parts)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.SeqStmt, look)))


def _joined(first: Any, one: Any, second: Any, other: Any) -> Any:
    """Two stores with their indices as one; None if they do not interleave."""
    if not first.buffer.same_as(second.buffer):
        return None
    lanes = int(one.lanes)
    if int(other.lanes) != lanes or not sym.Analyzer().can_prove_equal(other.base, one.base + 1):
        return None
    order = [place for i in range(lanes) for place in (i, lanes + i)]
    place = tirx.Ramp(one.base, tirx.IntImm(str(one.base.ty.dtype), 1), 2 * lanes)
    return tirx.BufferStore(first.buffer, tirx.Shuffle([first.value, second.value], order), [place])


def _alternate(statement: Any) -> Any:
    """The index of a store with stride 2; None for other statements."""
    if not isinstance(statement, tirx.BufferStore) or len(statement.indices) != 1:
        return None
    (index,) = statement.indices
    ramp = isinstance(index, tirx.Ramp) and isinstance(index.stride, tirx.IntImm)
    return index if ramp and int(index.stride) == 2 else None
