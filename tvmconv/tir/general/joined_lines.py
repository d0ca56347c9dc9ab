"""Copies whose lines are short: lines of several axes, of which squares of vectors are made."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import ir, tirx

from tvmconv.tir.annotations import TRANSPOSE_NEIGHBORS
from tvmconv.tir.general.interleave import LANE_BYTES
from tvmconv.tir.general.rewrite import BlockAxis, item_bytes, substitute, uses
from tvmconv.tir.general.transposed_tiles import FEW_BYTES, TransposedCopy, tile_of

# the side of the smallest square
_SHORTEST = 4


def joined_lines(
    store: Any, axes: list[BlockAxis], vector_bytes: int
) -> tuple[list[Any], Any, list[BlockAxis]]:
    """A copy ``store[..., written] = load[..., read]`` with longer lines, if lines are short.

    The last axes of the operand become one axis, and the last axes of the result. Its index is
    divided where the other buffer has them apart. Returns the views, the store and its axes.
    Copies with good tiles, and other statements, are unchanged.
    """
    load = store.value
    if not isinstance(load, ir.TensorLoad) or not store.indices or not load.indices:
        return [], store, axes
    sides = _last_axes(load, axes), _last_axes(store, axes)
    if not all(sides) or sides[0][0] is sides[1][0]:
        return [], store, axes
    read, written = lasts = [side[0] for side in sides]
    item = item_bytes(str(store.buffer.dtype))
    others = [axis for axis in axes if axis not in lasts]
    copy = TransposedCopy(store, load, others, read, written, written.extent)
    tile = tile_of(copy, vector_bytes)
    if tile is not None and (item > FEW_BYTES or tile.mark == TRANSPOSE_NEIGHBORS):
        return [], store, axes
    views, least = list[Any](), max(_SHORTEST, LANE_BYTES // item)
    for of_store in (False, True):
        # the axes of the first line are in no other one
        line = _line(_last_axes(store if of_store else store.value, axes), lasts, least)
        if len(line) < 2:
            continue
        values, joined = _divided(line)
        store = substitute(store, values)
        access = store if of_store else store.value
        buffer, indices = _buffer(access), list(access.indices)[: -len(line)]
        extent = tirx.IntImm(str(joined.var.ty.dtype), joined.extent)
        shape = [*list(buffer.shape)[: len(indices)], extent]
        kind = {"scope": buffer.scope(), "layout": None}
        view = tirx.decl_buffer(shape, str(buffer.dtype), buffer.name, **kind)
        views.append(tirx.DeclBuffer(view, data=buffer.data))
        if of_store:
            store = tirx.BufferStore(view, store.value, [*indices, joined.var])
        else:
            value = tirx.BufferLoad(view, [*indices, joined.var])
            store = tirx.BufferStore(store.buffer, value, store.indices)
        axes = [*(axis for axis in axes if axis not in line), joined]
    return views, store, axes


def _buffer(access: Any) -> Any:
    return access.buffer if isinstance(access, tirx.BufferStore) else access.source


def _last_axes(access: Any, axes: list[BlockAxis]) -> list[BlockAxis]:
    """The axes that are the last indices of a buffer, innermost first, and fill its dimensions."""
    found: list[BlockAxis] = []
    places = list(zip(access.indices, _buffer(access).shape, strict=True))
    for place in range(len(places) - 1, -1, -1):
        index, size = places[place]
        axis = next((axis for axis in axes if index.same_as(axis.var)), None)
        others = [other for i, (other, _) in enumerate(places) if i != place]
        if axis is None or any(uses(other, axis.var) for other in others):
            break
        if int(size) != axis.extent:
            break
        found.append(axis)
    return found


def _line(side: list[BlockAxis], lasts: list[BlockAxis], least: int) -> list[BlockAxis]:
    """The axes of a line of at least some elements, innermost first, without the other line's."""
    line: list[BlockAxis] = []
    for axis in side:
        if prod(each.extent for each in line) >= least or (line and axis in lasts):
            break
        line.append(axis)
    return line


def _divided(line: list[BlockAxis]) -> tuple[dict[Any, Any], BlockAxis]:
    """The axes of a line by one axis over all of them."""
    var = ir.Var("line", line[0].var.ty)
    values, rest = {}, var
    for axis in line[:-1]:
        values[axis.var] = tirx.floormod(rest, axis.extent)
        rest = tirx.floordiv(rest, axis.extent)
    values[line[-1].var] = rest
    return values, BlockAxis(var, prod(axis.extent for axis in line))
