"""Zips bytes of several rows into dwords, for four neighboring columns at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.operators.products import SIDE_BY_SIDE
from tvmconv.tir.general.rewrite import function_pass
from tvmconv.tir.neon.neighbor_lanes import by_runs, chains, place_of

# lanes of a vector of dwords; bytes of such a vector
_LANES = 4
_BYTES = 4 * _LANES


def ZipRows() -> Any:
    """A pass that interleaves the bytes of four rows, for four columns at once.

    Pattern: consecutive stores, without a loop or a branch between them, that use dwords of four
    vectors of four bytes, ``side_by_side(row0[first + 4 * i], row1[...], ...)`` for several ``i``.
    None of the stores writes the rows. A broadcast scalar may replace a row.

    Rewrite: the rows are loaded as vectors of 16 bytes, within the range that the stores read.
    ``zip1`` and ``zip2`` interleave them to four vectors of dwords. The last vector may overlap the
    one before. Dwords with fewer neighbors are unchanged.

    Why here: a vector of the layout has 4 bytes, and LLVM does not merge loads of them. Each dword
    took four loads and three instructions. With this pass eight instructions make four dwords. The
    pass compares indices, which differ by constants once tiles are unrolled and indices are
    simplified.
    """
    return function_pass("neon.ZipRows", _zip_rows)


def _zip_rows(func: Any) -> Any:
    return func.with_body(by_runs(func.body, _rewritten))


def _rewritten(stores: list[Any]) -> list[Any]:
    """The stores, with dwords that are lanes of longer vectors."""
    written = {store.buffer for store in stores}
    found: dict[Any, dict[int, Any]] = {}

    def note(call: Any) -> None:
        key, place = _key(call, written)
        if key is not None:
            found.setdefault(key, {}).setdefault(place, call)

    for store in stores:
        tvm_ffi.structural_walk(store, (ir.Call, note))
    dwords: dict[Any, Any] = {}
    for key, calls in found.items():
        for first, places in _covered(sorted(calls)):
            vectors = _dword_vectors(calls[places[0]], first - places[0])
            dwords.update({(key, p): vectors[(p - first) // _LANES] for p in places})
    if not dwords:
        return stores

    def look(call: Any) -> Any:
        return dwords.get(_key(call, written), call)

    return [tvm_ffi.structural_map(store, (ir.Call, look)) for store in stores]


def _key(call: Any, written: set[Any]) -> tuple[Any, int]:
    """The common key of dwords of neighboring columns, and the begin of a dword's first row."""
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
    """Vectors of dwords of neighboring columns: the begin of each, and the dwords it holds."""
    # dwords of consecutive columns; everything between the first and the last may be read
    for chain in chains(places, lambda one, other: other - one == _LANES):
        first, last = chain[0], chain[-1] - (_BYTES - _LANES)
        while chain and last >= first:
            begin = min(chain[0], last)
            held = [place for place in chain if place < begin + _BYTES]
            yield begin, held
            chain = chain[len(held) :]


def _dword_vectors(call: Any, offset: int) -> list[Any]:
    """Four vectors of dwords; the first begins ``offset`` elements after the call's dword."""

    def long(value: Any) -> Any:
        if isinstance(value, tirx.Broadcast):
            return tirx.Broadcast(value.value, _BYTES)
        (ramp,) = value.indices
        first = ramp.base + tirx.IntImm(str(ramp.base.ty.dtype), offset)
        return tirx.BufferLoad(value.source, [tirx.Ramp(first, ramp.stride, _BYTES)])

    rows = [tirx.reinterpret(f"int8x{_BYTES}", long(value)) for value in call.args]
    # missing rows repeat others, because their weights are zero
    rows += rows[: _BYTES // _LANES - len(rows)]
    count = _BYTES // 2
    upper, lower = (
        [tirx.reinterpret(f"int16x{count}", half) for half in _zipped(rows[i], rows[i + 1], _BYTES)]
        for i in (0, 2)
    )
    dwords = [
        dword
        for two, others in zip(upper, lower, strict=True)
        for dword in _zipped(two, others, count)
    ]
    return [tirx.reinterpret(f"int32x{_LANES}", dword) for dword in dwords]


def _zipped(one: Any, other: Any, lanes: int) -> list[Any]:
    """Two vectors interleaved (``zip1``, ``zip2``)."""
    order = [place for i in range(lanes) for place in (i, i + lanes)]
    return [tirx.Shuffle([one, other], half) for half in (order[:lanes], order[lanes:])]
