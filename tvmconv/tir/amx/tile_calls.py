"""Replaces loops over the values of an AMX tile by calls.

Expressions and schedules see accumulators in a buffer of scope ``local``, tile by tile. So do all
passes before this one. :mod:`tvmconv.tir.amx.allocate_tiles` lowers the calls to instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.operators.products import registered
from tvmconv.tir.annotations import TILE
from tvmconv.tir.general.rewrite import function_pass, nest_of, nodes_of, replace_marked, substitute

BEGIN, PRODUCT, STORE = "tvmconv.tile_begin", "tvmconv.tile_product", "tvmconv.tile_store"
# bytes of a dword, and of the dwords of 16 outputs
_DWORD, _ROW_BYTES = 4, 64
# strides of the loops over rows, lanes, dwords and bytes; None for any stride
_OF_SUMS, _OF_BIAS = (None, 1), (0, 1)
_OF_PIXELS, _OF_WEIGHTS = (None, 0, _DWORD, 1), (0, _DWORD, _ROW_BYTES, 1)


def TileCalls() -> Any:
    """A pass that replaces each nest of loops over the values of a tile by a call.

    Pattern: a loop over rows with the annotation :data:`~tvmconv.tir.annotations.TILE`, around
    loops over 16 lanes and one store. A product also has loops over 16 dwords of 4 bytes. The store
    writes zero or a bias (begin), adds a product (product), or copies an accumulator (store). Rows
    have a constant stride, and the values of a row are contiguous.

    Rewrite: the nest becomes a call. Its arguments are the number of rows, and the address and row
    stride in bytes of the accumulators and of each operand.

    Why here: buffers have one dimension, and loops are not vectorized yet.
    """
    return function_pass("amx.TileCalls", lambda func: replace_marked(func, {TILE: _call}))


def _call(loop: Any, _value: Any) -> Any:
    loops, store = nest_of(loop)
    loads = nodes_of(store.value, ir.TensorLoad)
    own = tirx.BufferLoad(store.buffer, store.indices)
    loads = [load for load in loads if not load.source.same_as(store.buffer)]
    patterns: tuple[tuple[int | None, ...], ...]
    if len(loops) > len(_OF_SUMS):
        name, patterns = PRODUCT, (_OF_SUMS, _OF_PIXELS, _OF_WEIGHTS)
    elif loads and loads[0].source.scope() == "local":
        # the loaded buffer is the tile
        name, patterns = STORE, (_OF_SUMS, _OF_SUMS)
        own, loads = loads[0], [own]
    else:
        name, patterns = BEGIN, (_OF_SUMS, _OF_BIAS)[: 1 + len(loads)]
    args: list[Any] = [int(loop.extent)]
    for load, pattern in zip((own, *loads), patterns, strict=True):
        args += _rows(load, loops, pattern)
    return tirx.Evaluate(tirx.call_intrin("void", registered(name, updates=True), *args))


def _rows(load: Any, loops: Sequence[Any], pattern: Sequence[int | None]) -> tuple[Any, int]:
    """The address of a tile's first value, and its row stride in bytes."""
    analyzer, (index,) = sym.Analyzer(), load.indices
    variables = [loop.loop_var for loop in loops]
    first = analyzer.simplify(substitute(index, dict.fromkeys(variables, 0)))
    distances = []
    for var in variables[: len(pattern)]:
        one = {**dict.fromkeys(variables, 0), var: 1}
        distances.append(int(analyzer.simplify(substitute(index, one) - first)))
    if any(known not in (None, found) for known, found in zip(pattern, distances, strict=False)):
        raise ValueError(
            f"cannot lower a tile of {load.source.name}: its strides are {distances}. Expected "
            f"{pattern}. Use the packed layout of tiles in the schedule."
        )
    row = next((d for d, known in zip(distances, pattern, strict=False) if known is None), 0)
    # weights: from one row of dwords to the next
    row = _ROW_BYTES if pattern is _OF_WEIGHTS else row * _item(load)
    return tirx.address_of(tirx.BufferLoad(load.source, [first])), row


def _item(load: Any) -> int:
    return int(load.source.dtype.itemsize)
