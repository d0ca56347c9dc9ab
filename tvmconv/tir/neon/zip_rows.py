"""Words of bytes from several rows, made for four neighbouring columns at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvmconv.tir.general.rewrite import function_pass
from tvmconv.tir.neon.neighbor_lanes import by_runs, chains, place_of

# lanes of a vector of words, and words of bytes in one vector of bytes
_LANES = 4
_BYTES = 4 * _LANES


def ZipRows() -> Any:
    """A pass that puts bytes of four rows side by side for four columns at once.

    Pattern: stores that follow each other without a loop or a test between them, and that read
    words of four vectors of four bytes each, ``side_by_side(row0[first + 4 * i], row1[...], ...)``
    for several ``i``, where none of the stores writes the rows. Instead of a row a word may have a
    vector of one value.

    Rewrite: the rows are loaded by vectors of 16 bytes between the first and the last word that
    the stores read, and interleaved (``zip1``, ``zip2``) to four vectors of words; a last vector
    may overlap the one before. Words of which fewer are neighbours stay as they are.

    Why here: a vector of the layout is 4 bytes long, and LLVM joins no loads of them: each word
    took four loads and three instructions, where eight make four words. Neighbours are found by
    comparing indices, which differ in constants once tiles are unrolled and indices are simplified.
    """
    return function_pass("neon.ZipRows", _interleaved)


def _interleaved(func: Any) -> Any:
    return func.with_body(by_runs(func.body, _rewritten))


def _rewritten(stores: list[Any]) -> list[Any]:
    """The stores with words that are lanes of longer vectors."""
    import tvm_ffi
    from tvm import ir

    written = {store.buffer for store in stores}
    found: dict[Any, dict[int, Any]] = {}

    def note(call: Any) -> None:
        key, place = _key(call, written)
        if key is not None:
            found.setdefault(key, {}).setdefault(place, call)

    for store in stores:
        tvm_ffi.structural_walk(store, (ir.Call, note))
    words: dict[Any, Any] = {}
    for key, calls in found.items():
        for first, places in _covered(sorted(calls)):
            vectors = _woven(calls[places[0]], first - places[0])
            words.update({(key, p): vectors[(p - first) // _LANES] for p in places})
    if not words:
        return stores

    def look(call: Any) -> Any:
        return words.get(_key(call, written), call)

    return [tvm_ffi.structural_map(store, (ir.Call, look)) for store in stores]


def _key(call: Any, written: set[Any]) -> tuple[Any, int]:
    """What words of neighbouring columns have in common, and where a word's first row begins."""
    import tvm_ffi
    from tvm import ir, tirx

    from tvmconv.operators.products import SIDE_BY_SIDE

    width = _BYTES // _LANES
    if getattr(call.op, "name", "") != f"{SIDE_BY_SIDE}{width}":
        return None, 0
    if int(call.ty.dtype.lanes) != _LANES:
        return None, 0
    parts: list[Any] = []
    begin: int | None = None
    for value in call.args:
        if isinstance(value, tirx.Broadcast):
            parts.append(tvm_ffi.structural_hash(value))
            continue
        if not isinstance(value, ir.expr.TensorLoad) or value.source in written:
            return None, 0
        (ramp,) = value.indices
        if not isinstance(ramp, tirx.Ramp) or int(ramp.stride) != 1:
            return None, 0
        common, place = place_of(ramp.base)
        begin = place if begin is None else begin
        parts.append((value.source, common, place - begin))
    return (None, 0) if begin is None else (tuple(parts), begin)


def _covered(places: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Vectors of words of neighbouring columns: where each begins, and the words it holds."""
    # at the distance of a column; what lies between may be read
    for chain in chains(places, lambda one, other: other - one == _LANES):
        first, last = chain[0], chain[-1] - (_BYTES - _LANES)
        while chain and last >= first:
            begin = min(chain[0], last)
            held = [place for place in chain if place < begin + _BYTES]
            yield begin, held
            chain = chain[len(held) :]


def _woven(call: Any, offset: int) -> list[Any]:
    """Four vectors of words, the first ``offset`` elements behind those of a call."""
    from tvm import tirx

    def long(value: Any) -> Any:
        if isinstance(value, tirx.Broadcast):
            return tirx.Broadcast(value.value, _BYTES)
        (ramp,) = value.indices
        first = ramp.base + tirx.IntImm(str(ramp.base.ty.dtype), offset)
        return tirx.BufferLoad(value.source, [tirx.Ramp(first, ramp.stride, _BYTES)])

    rows = [tirx.reinterpret(f"int8x{_BYTES}", long(value)) for value in call.args]
    # rows that a word lacks are multiplied by zero
    rows += rows[: _BYTES // _LANES - len(rows)]
    count = _BYTES // 2
    upper, lower = (
        [tirx.reinterpret(f"int16x{count}", half) for half in _zipped(rows[i], rows[i + 1], _BYTES)]
        for i in (0, 2)
    )
    words = [
        word
        for two, others in zip(upper, lower, strict=True)
        for word in _zipped(two, others, count)
    ]
    return [tirx.reinterpret(f"int32x{_LANES}", word) for word in words]


def _zipped(one: Any, other: Any, lanes: int) -> list[Any]:
    """Elements of two vectors in turns: those of the first halves, and of the second ones."""
    from tvm import tirx

    order = [place for i in range(lanes) for place in (i, i + lanes)]
    return [tirx.Shuffle([one, other], half) for half in (order[:lanes], order[lanes:])]
