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
        for statement in sequence.seq:
            if parts and (joined := _joined(parts[-1], statement)) is not None:
                parts[-1] = joined
            else:
                parts.append(statement)
        if len(parts) == len(sequence.seq):
            return sequence
        return tirx.stmt_seq(*parts)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.SeqStmt, look)))


def _joined(first: Any, second: Any) -> Any:
    """Two stores as one; None if they do not interleave."""
    ramps = [_alternate(statement) for statement in (first, second)]
    if None in ramps or not first.buffer.same_as(second.buffer):
        return None
    one, other = ramps
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
