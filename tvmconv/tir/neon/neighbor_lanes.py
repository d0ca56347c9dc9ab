"""Loads dwords of neighboring positions as lanes of one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import tvm_ffi
from tvm import ir, tirx

from tvmconv.machines.multiply import BY_NAME
from tvmconv.operators.products import NEGATIVE, WORD, instruction_of
from tvmconv.tir.general.rewrite import function_pass, item_bytes

_REGISTER_BITS = 128
_T = TypeVar("_T")


def NeighborLanes() -> Any:
    """A pass that loads neighboring dwords of dot products as vectors.

    Pattern: consecutive stores, without a loop or a branch between them, that add dot products of
    broadcast dwords: ``dot(Broadcast(word(buffer[first + i * size])), weight)`` for several ``i``.
    None of the stores writes that buffer.

    Rewrite: the dwords become lanes of 128-bit vectors, within the range that the stores read.
    16-bit integers also use 64-bit vectors. The last vector may overlap the one before. Dwords with
    stride 2 use every second lane. Dwords with too few neighbors are unchanged.

    Why here: AArch64 multiplies by one lane of a vector, so that a load serves the dwords of four
    positions. Positions are aligned to one dword only, unlike the channels that
    :func:`~tvmconv.tir.neon.multiply_by_lane.MultiplyByLane` loads. The pass therefore compares
    indices, which differ by constants once tiles are unrolled and indices are simplified.
    """
    return function_pass("neon.NeighborLanes", _neighbors)


def _neighbors(func: Any) -> Any:
    return func.with_body(by_runs(func.body, _rewritten))


def by_runs(body: Any, rewritten: Callable[[list[Any]], list[Any]]) -> Any:
    """Rewrite runs of consecutive stores in a body."""

    def look(sequence: Any) -> Any:
        parts: list[Any] = []
        for run in _runs(sequence.seq):
            parts += rewritten(run) if isinstance(run[0], tirx.BufferStore) else run
        return tirx.SeqStmt(parts)

    return tvm_ffi.structural_map(body, (tirx.SeqStmt, look))


def _runs(statements: Iterable[Any]) -> Iterator[list[Any]]:
    """Runs of consecutive stores, and every other statement by itself."""
    run: list[Any] = []
    for statement in statements:
        if isinstance(statement, tirx.BufferStore):
            run.append(statement)
            continue
        if run:
            yield run
        yield [statement]
        run = []
    if run:
        yield run


def _rewritten(stores: list[Any]) -> list[Any]:
    """The stores, with their dwords loaded as vectors."""
    written = {store.buffer for store in stores}
    read: dict[Any, set[int]] = {}

    def note(call: Any) -> None:
        found = _broadcast_dword(call)
        if found is not None and found[0] not in written:
            source, rest, place, size, _ = found
            read.setdefault((source, rest, size), set()).add(place)

    for store in stores:
        tvm_ffi.structural_walk(store, (ir.Call, note))
    vectors = {key: _covered(places, key) for key, places in read.items()}
    if not any(vectors.values()):
        return stores

    def look(call: Any) -> Any:
        found = _broadcast_dword(call)
        if found is None:
            return call
        source, rest, place, size, index = found
        at = vectors.get((source, rest, size), {}).get(place)
        if at is None:
            return call
        first, count = at
        dtype, dword = str(index.ty.dtype), call.args[0].value
        begin = index + tirx.IntImm(dtype, first - place)
        load = tirx.BufferLoad(source, [tirx.Ramp(begin, tirx.IntImm(dtype, size), count)])
        vector = tirx.call_intrin(f"int32x{count}", dword.op.name, load)
        lanes = int(call.args[0].lanes)
        spread = tirx.Shuffle([vector], [(place - first) // size] * lanes)
        return tirx.call_intrin(str(call.ty.dtype), call.op.name, spread, call.args[1])

    return [tvm_ffi.structural_map(store, (ir.Call, look)) for store in stores]


def _broadcast_dword(call: Any) -> tuple[Any, int, int, int, Any] | None:
    """The operand of a dot product of a broadcast dword; None for other calls.

    Returns the buffer, the variable and the constant part of the index, the elements of the dword,
    and the whole index.
    """
    name = instruction_of(getattr(call.op, "name", "")).removesuffix(NEGATIVE)
    if name not in BY_NAME or not isinstance(call.args[0], tirx.Broadcast):
        return None
    dword = call.args[0].value
    if getattr(getattr(dword, "op", None), "name", "") != WORD or len(dword.args[0].indices) != 1:
        return None
    load = dword.args[0]
    common, place = place_of(load.indices[0])
    return load.source, common, place, BY_NAME[name].width, load.indices[0]


def place_of(index: Any) -> tuple[int, int]:
    """An index as the sum of an expression, given by its hash, and a constant."""
    if isinstance(index, tirx.IntImm):
        return 0, int(index)
    rest, place = index, 0
    if isinstance(index, tirx.Add | tirx.Sub) and isinstance(index.b, tirx.IntImm):
        rest, place = index.a, int(index.b) if isinstance(index, tirx.Add) else -int(index.b)
    return tvm_ffi.structural_hash(rest), place


def _covered(places: set[int], key: tuple[Any, int, int]) -> dict[int, tuple[int, int]]:
    """For each dword that a vector can hold: the vector's begin, and its number of dwords."""
    source, _, size = key
    dword_bits = 8 * size * item_bytes(str(source.dtype))
    found: dict[int, tuple[int, int]] = {}
    # dwords at a distance of one dword, or of two for stride 2; everything between the first and
    # the last of them may be read
    for chain in chains(sorted(places), lambda one, other: other - one in (size, 2 * size)):
        last, position = chain[-1], 0
        counts = [c for c in (_REGISTER_BITS // dword_bits, 4) if (c - 1) * size <= last - chain[0]]
        if not counts:
            continue
        reach = (counts[0] - 1) * size
        while position < len(chain):
            first = min(chain[position], last - reach)
            for place in chain[position:]:
                if place > first + reach:
                    break
                found[place] = (first, counts[0])
                position += 1
    return found


def chains(items: Iterable[_T], follows: Callable[[_T, _T], bool]) -> Iterator[list[_T]]:
    """Maximal chains of items, each of which follows its predecessor."""
    chain: list[_T] = []
    for item in items:
        if chain and not follows(chain[-1], item):
            yield chain
            chain = []
        chain.append(item)
    if chain:
        yield chain
