"""Words of neighbouring pixels, read as lanes of one vector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tvmconv.tir.general.rewrite import function_pass

_REGISTER_BITS = 128
_T = TypeVar("_T")


def NeighborLanes() -> Any:
    """A pass that reads neighbouring words of dot products by the vector.

    Pattern: stores that follow each other without a loop or a test between them, and that add dot
    products of words spread over vectors: ``dot(Broadcast(word(buffer[first + i * size])),
    weight)`` for several ``i``, where none of the stores writes that buffer.

    Rewrite: the words become lanes of vectors of 128 bits (of 16-bit words, of 64 bits too) that
    lie between the first and the last word that the stores read; the last may overlap the one
    before. Words that are every second one, as a stride has them, take half of the lanes. Words of
    which too few are neighbours stay as they are.

    Why here: AArch64's instructions multiply by one lane of a vector, so that a load serves four
    pixels' words. Where pixels begin is known only to the alignment of one, unlike the channels
    that :func:`~tvmconv.tir.neon.multiply_by_lane.MultiplyByLane` reads; so neighbours are found by
    comparing indices, which differ in constants once tiles are unrolled and indices are simplified.
    """
    return function_pass("neon.NeighborLanes", _neighbours)


def _neighbours(func: Any) -> Any:
    return func.with_body(by_runs(func.body, _rewritten))


def by_runs(body: Any, rewritten: Callable[[list[Any]], list[Any]]) -> Any:
    """A body in which stores that follow each other are rewritten together."""
    import tvm_ffi
    from tvm import tirx

    def look(sequence: Any) -> Any:
        parts: list[Any] = []
        for run in _runs(sequence.seq):
            parts += rewritten(run) if isinstance(run[0], tirx.BufferStore) else run
        return tirx.SeqStmt(parts)

    return tvm_ffi.structural_map(body, (tirx.SeqStmt, look))


def _runs(statements: Iterable[Any]) -> Iterator[list[Any]]:
    """Stores that follow each other, together, and every other statement by itself."""
    from tvm import tirx

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
    """The stores with their words read by the vector."""
    import tvm_ffi
    from tvm import ir, tirx

    written = {store.buffer for store in stores}
    read: dict[Any, set[int]] = {}

    def note(call: Any) -> None:
        found = _spread_word(call)
        if found is not None and found[0] not in written:
            source, rest, place, size, _ = found
            read.setdefault((source, rest, size), set()).add(place)

    for store in stores:
        tvm_ffi.structural_walk(store, (ir.Call, note))
    vectors = {key: _covered(places, key) for key, places in read.items()}
    if not any(vectors.values()):
        return stores

    def look(call: Any) -> Any:
        found = _spread_word(call)
        if found is None:
            return call
        source, rest, place, size, index = found
        at = vectors.get((source, rest, size), {}).get(place)
        if at is None:
            return call
        first, count = at
        dtype, word = str(index.ty.dtype), call.args[0].value
        begin = index + tirx.IntImm(dtype, first - place)
        load = tirx.BufferLoad(source, [tirx.Ramp(begin, tirx.IntImm(dtype, size), count)])
        vector = tirx.call_intrin(f"int32x{count}", word.op.name, load)
        lanes = int(call.args[0].lanes)
        spread = tirx.Shuffle([vector], [(place - first) // size] * lanes)
        return tirx.call_intrin(str(call.ty.dtype), call.op.name, spread, call.args[1])

    return [tvm_ffi.structural_map(store, (ir.Call, look)) for store in stores]


def _spread_word(call: Any) -> tuple[Any, int, int, int, Any] | None:
    """Of a dot product of a spread word: buffer, what its index has in common, the rest of it.

    Last are the elements of the word, and the whole index.
    """
    from tvm import tirx

    from tvmconv.machines.multiply import BY_NAME
    from tvmconv.operators.products import NEGATIVE, WORD, instruction_of

    name = instruction_of(getattr(call.op, "name", "")).removesuffix(NEGATIVE)
    if name not in BY_NAME or not isinstance(call.args[0], tirx.Broadcast):
        return None
    word = call.args[0].value
    if getattr(getattr(word, "op", None), "name", "") != WORD or len(word.args[0].indices) != 1:
        return None
    load = word.args[0]
    common, place = place_of(load.indices[0])
    return load.source, common, place, BY_NAME[name].width, load.indices[0]


def place_of(index: Any) -> tuple[int, int]:
    """An index as the sum of an expression, of which this is the hash, and a constant."""
    import tvm_ffi
    from tvm import tirx

    if isinstance(index, tirx.IntImm):
        return 0, int(index)
    rest, place = index, 0
    if isinstance(index, tirx.Add | tirx.Sub) and isinstance(index.b, tirx.IntImm):
        rest, place = index.a, int(index.b) if isinstance(index, tirx.Add) else -int(index.b)
    return tvm_ffi.structural_hash(rest), place


def _covered(places: set[int], key: tuple[Any, int, int]) -> dict[int, tuple[int, int]]:
    """For each word that a vector can hold: where the vector begins, and how many it holds."""
    from tvmconv.tir.general.rewrite import item_bytes

    source, _, size = key
    word_bits = 8 * size * item_bytes(str(source.dtype))
    found: dict[int, tuple[int, int]] = {}
    # those that follow each other at the distance of a word, or of two as strides have it; what
    # lies between the first and the last of them may be read
    for chain in chains(sorted(places), lambda one, other: other - one in (size, 2 * size)):
        last, position = chain[-1], 0
        counts = [c for c in (_REGISTER_BITS // word_bits, 4) if (c - 1) * size <= last - chain[0]]
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
    """Items each of which follows the one before, together."""
    chain: list[_T] = []
    for item in items:
        if chain and not follows(chain[-1], item):
            yield chain
            chain = []
        chain.append(item)
    if chain:
        yield chain
