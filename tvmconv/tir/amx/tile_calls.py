"""Products of tiles of bytes (Intel's AMX): loops over the values of one tile become a call.

Expressions and schedules see sums in a buffer of scope ``local``, tile by tile; so do all passes up
to this one. :mod:`tvmconv.tir.amx.allocate_tiles` makes instructions of the calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.tir.annotations import TILE
from tvmconv.tir.general.rewrite import function_pass, replace_marked, substitute

BEGIN, PRODUCT, STORE = "tvmconv.tile_begin", "tvmconv.tile_product", "tvmconv.tile_store"
# bytes of a word, and of 16 outputs' words
_WORD, _ROW_BYTES = 4, 64
# distances of neighbours along the loops over pixels, lanes, words and bytes; None for any
_OF_SUMS, _OF_BIAS = (None, 1), (0, 1)
_OF_PIXELS, _OF_WEIGHTS = (None, 0, _WORD, 1), (0, _WORD, _ROW_BYTES, 1)


def TileCalls() -> Any:
    """A pass that makes a call of each nest of loops over the values of a tile.

    Pattern: a loop that carries the annotation :data:`~tvmconv.tir.annotations.TILE`, over pixels,
    around loops over 16 lanes and, of a product, 16 words of 4 bytes, around one store: of zero or
    a bias (begin), of its own value and a product (product), or of a sum (store). Rows of a tile
    lie equally far apart, and what belongs to one row is contiguous.

    Rewrite: the nest becomes a call with the number of pixels, the address of the first sum and
    the addresses of first values that are read, behind each the bytes from row to row.

    Why here: buffers have one dimension, and loops are not yet vectors.
    """
    return function_pass("amx.TileCalls", lambda func: replace_marked(func, {TILE: _call}))


def _call(loop: Any, _value: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    from tvmconv.operators.products import registered

    loops, store = [loop], loop.body
    while isinstance(store, tirx.For):
        loops.append(store)
        store = store.body
    loads: list[Any] = []
    tvm_ffi.structural_walk(store.value, (ir.TensorLoad, loads.append))
    own = tirx.BufferLoad(store.buffer, store.indices)
    loads = [load for load in loads if not load.source.same_as(store.buffer)]
    patterns: tuple[tuple[int | None, ...], ...]
    if len(loops) > len(_OF_SUMS):
        name, patterns = PRODUCT, (_OF_SUMS, _OF_PIXELS, _OF_WEIGHTS)
    elif loads and loads[0].source.scope() == "local":
        # the tile is what is read
        name, patterns = STORE, (_OF_SUMS, _OF_SUMS)
        own, loads = loads[0], [own]
    else:
        name, patterns = BEGIN, (_OF_SUMS, _OF_BIAS)[: 1 + len(loads)]
    args: list[Any] = [int(loop.extent)]
    for load, pattern in zip((own, *loads), patterns, strict=True):
        args += _rows(load, loops, pattern)
    return tirx.Evaluate(tirx.call_intrin("void", registered(name, updates=True), *args))


def _rows(load: Any, loops: Sequence[Any], pattern: Sequence[int | None]) -> tuple[Any, int]:
    """The address of the first value that a tile has, and the bytes from row to row."""
    from tvm import sym, tirx

    analyzer, (index,) = sym.Analyzer(), load.indices
    variables = [loop.loop_var for loop in loops]
    first = analyzer.simplify(substitute(index, dict.fromkeys(variables, 0)))
    distances = []
    for var in variables[: len(pattern)]:
        one = {**dict.fromkeys(variables, 0), var: 1}
        distances.append(int(analyzer.simplify(substitute(index, one) - first)))
    if any(known not in (None, found) for known, found in zip(pattern, distances, strict=False)):
        raise ValueError(f"values of a tile of {load.source.name} are {distances} apart")
    row = next((d for d, known in zip(distances, pattern, strict=False) if known is None), 0)
    # weights: from one row of words to the next
    row = _ROW_BYTES if pattern is _OF_WEIGHTS else row * _item(load)
    return tirx.address_of(tirx.BufferLoad(load.source, [first])), row


def _item(load: Any) -> int:
    return int(load.source.dtype.itemsize)
