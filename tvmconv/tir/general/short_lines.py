"""Copies of lines of few bytes."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tvmconv.tir.general.rewrite import item_bytes
from tvmconv.tir.general.transposed_tiles import distance

# longer lines are read by the prefetcher, in any order
_MOST_BYTES = 256


def neighbors(block: Any) -> int | None:
    """The axis along which the lines that a block copies follow each other in the operand.

    ``block`` is a ``s_tir.SBlock`` that copies ``store[..., line] = load[..., line]``. None for
    other blocks, for long lines, and where lines also follow each other in the result.
    """
    store, axes = block.body, block.iter_vars
    if len(axes) <= 2 or not isinstance(store, tirx.BufferStore):
        return None
    if not isinstance(store.value, ir.TensorLoad):
        return None
    *outer, _, line = axes
    load, length = store.value, int(line.dom.extent)
    if length * item_bytes(str(store.buffer.dtype)) > _MOST_BYTES:
        return None
    if distance(store.buffer, store.indices, line) != 1:
        return None

    def read(axis: Any) -> int:
        return distance(load.source, load.indices, axis)

    found = (place for place, axis in enumerate(outer) if read(axis) == length)
    return next(found, None) if read(line) == 1 else None
