"""The loops of a copy that transposes, over squares of vectors."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.joined_lines import joined_lines
from tvmconv.tir.general.rewrite import BlockAxis, item_bytes, nest_of, substitute, uses
from tvmconv.tir.general.transposed_tiles import (
    PAIR,
    Tile,
    TransposedCopy,
    order_of,
    tile_of,
)

# bytes that are moved as one integer
_WHOLE = (2, 4, 8)


def transposed_loops(func: Any, vector_bytes: int, parallel: bool) -> Any:
    """A function of one spatial block that is a transposing copy, as loops without blocks.

    The function is in block form, with as few axes as it can have. ``parallel`` is whether threads
    share the outermost loop. None where the block is not a copy whose source and result are
    contiguous along two axes. The last lines of the result may be filled with zeros, as in a
    channel block with fewer channels.
    """
    *declared, last = tirx.stmt_list(func.body.block.body)
    block = nest_of(last)[1].block
    store, axes = block.body, [BlockAxis(a.var, int(a.dom.extent)) for a in block.iter_vars]
    if not isinstance(store, tirx.BufferStore) or str(store.value.ty.dtype) == "bool":
        # a value that is computed: LLVM's vectors of truth values are not those in memory
        return None
    views, store, axes = _as_integers(store, axes)
    joined, store, axes = joined_lines(store, axes, vector_bytes)
    views += joined
    copies = [_copy(*part) for part in _by_blocks(store, axes)]
    parts = [part for copy in copies for part in (_parts(copy) if copy else [None])]
    bodies = [_squares(part, vector_bytes, parallel) if part else None for part in parts]
    if not bodies or None in bodies:
        return None
    return func.with_body(tirx.stmt_seq(*declared, *views, *bodies))


def _as_integers(store: Any, axes: list[BlockAxis]) -> tuple[list[Any], Any, list[BlockAxis]]:
    """The copy with whole lines of two to eight bytes as integers, and the views that it needs.

    The lines stay what they are: they are the last axis of both buffers. Other copies are
    unchanged.
    """
    load = store.value
    if not isinstance(load, ir.TensorLoad) or len(axes) < 2:
        return [], store, axes
    line, item = axes[-1], item_bytes(str(store.buffer.dtype))
    sides = ((store.buffer, store.indices), (load.source, load.indices))
    whole = all(
        len(indices) > 1
        and indices[-1].same_as(line.var)
        and int(buffer.shape[-1]) == line.extent
        and not any(uses(index, line.var) for index in indices[:-1])
        for buffer, indices in sides
    )
    if not whole or line.extent == 1 or line.extent * item not in _WHOLE:
        return [], store, axes
    kind = f"int{8 * line.extent * item}"
    result, source = (
        tirx.decl_buffer(
            list(buffer.shape[:-1]), kind, buffer.name, scope=buffer.scope(), layout=None
        )
        for buffer, _ in sides
    )
    views = [
        tirx.DeclBuffer(view, data=buffer.data)
        for view, (buffer, _) in zip((result, source), sides, strict=True)
    ]
    value = tirx.BufferLoad(source, list(load.indices[:-1]))
    return views, tirx.BufferStore(result, value, list(store.indices[:-1])), axes[:-1]


def _by_blocks(store: Any, axes: list[BlockAxis]) -> list[tuple[Any, list[BlockAxis]]]:
    """The copy with an axis of blocks and one of lanes in place of an axis of channels.

    The last block, with fewer channels, is a copy of its own. Other copies are unchanged.
    """
    load = store.value
    lane = load.indices[-1] if isinstance(load, ir.TensorLoad) and load.indices else None
    if not isinstance(lane, tirx.FloorMod) or not isinstance(lane.b, tirx.IntImm):
        return [(store, axes)]
    size = int(lane.b)
    found = [axis for axis in axes if lane.a.same_as(axis.var)]
    if not found:
        return [(store, axes)]
    channel, (count, rest) = found[0], divmod(found[0].extent, size)
    place, kind = axes.index(channel), channel.var.ty
    parts = []
    for blocks, lanes, first in ((count, size, 0), (1, rest, count)):
        if not blocks * lanes:
            continue
        block, within = (
            BlockAxis(ir.Var("block", kind), blocks),
            BlockAxis(ir.Var("c", kind), lanes),
        )
        analyzer = sym.Analyzer()
        for axis in (block, within):
            analyzer.bind(axis.var, ir.Range.from_min_extent(0, axis.extent))
        values = {channel.var: (block.var + first) * size + within.var}
        moved = substitute(store, values)
        read = [analyzer.simplify(index) for index in moved.value.indices]
        value = tirx.BufferLoad(load.source, read)
        moved = tirx.BufferStore(moved.buffer, value, moved.indices)
        parts.append((moved, [*axes[:place], block, within, *axes[place + 1 :]]))
    return parts


def _copy(store: Any, axes: list[BlockAxis]) -> TransposedCopy | None:
    load = _guarded(store.value)[1]
    if not isinstance(load, ir.TensorLoad):
        return None
    read, written = (_last(indices, axes) for indices in (load.indices, store.indices))
    if read is None or written is None or read is written:
        return None
    others = [axis for axis in axes if axis is not read and axis is not written]
    return TransposedCopy(store, load, others, read, written, written.extent)


def _guarded(value: Any) -> tuple[Any, Any]:
    """The condition and the value of a selection between a value and zero; None and the value."""
    if isinstance(value, ir.Call) and is_select(value):
        condition, kept, other = value.args
        if isinstance(other, tirx.IntImm | tirx.FloatImm) and float(other.value) == 0:
            return condition, kept
    return None, value


def _parts(copy: TransposedCopy) -> list[TransposedCopy]:
    """The copy without conditions: its whole lines, and its last lines with zeros."""
    condition, load = _guarded(copy.store.value)
    if condition is None:
        return [copy]
    store = tirx.BufferStore(copy.store.buffer, load, copy.store.indices)
    found = [axis for axis in copy.others if uses(condition, axis.var)]
    if len(found) > 1:
        return []
    parts, values, others = [], {}, copy.others
    if found:
        axis, analyzer = found[0], sym.Analyzer()
        values = {axis.var: tirx.IntImm(str(axis.var.ty.dtype), axis.extent - 1)}
        others = [each for each in copy.others if each is not axis]
        before = BlockAxis(axis.var, axis.extent - 1)
        for each in (before, copy.written):
            analyzer.bind(each.var, ir.Range.from_min_extent(0, max(1, each.extent)))
        if before.extent:
            if not analyzer.can_prove(condition):
                return []
            whole = [before if each is axis else each for each in copy.others]
            parts = [replace(copy, store=store, others=whole)]
    bound = sym.Analyzer().simplify(substitute(condition, values))
    if not (isinstance(bound, tirx.LT) and bound.a.same_as(copy.written.var)):
        return []
    if not isinstance(bound.b, tirx.IntImm) or not 0 < int(bound.b) < copy.written.extent:
        return []
    store = substitute(store, values)
    return [
        *parts,
        replace(copy, store=store, load=store.value, others=others, filled=int(bound.b)),
    ]


def _last(indices: Any, axes: list[BlockAxis]) -> BlockAxis | None:
    """The axis that is the last index and in no other index; None for other accesses."""
    if not indices:
        return None
    *outer, last = indices
    found = [axis for axis in axes if last.same_as(axis.var)]
    if not found or any(uses(index, found[0].var) for index in outer):
        # it may be the other buffer's last axis, in any place
        return None
    return found[0]


def _squares(copy: TransposedCopy, vector_bytes: int, parallel: bool) -> Any:
    tile = tile_of(copy, vector_bytes)
    if tile is None:
        return None
    row, number, line, lane = (
        ir.Var(name, copy.read.var.ty) for name in ("row", "tile", "line", "lane")
    )
    order = order_of(copy, tile, row, number)
    values = {
        copy.read.var: _place(copy.read, order.read, tile.read, lane),
        copy.written.var: _place(copy.written, order.written, tile.written, line),
    }
    store = substitute(copy.store, values)
    if copy.filled < copy.written.extent:
        fits = tirx.LT(line, tirx.IntImm(str(line.ty.dtype), copy.filled))
        zero = tirx.const(0, str(store.value.ty.dtype))
        value = tirx.if_then_else(fits, store.value, zero)
        store = tirx.BufferStore(store.buffer, value, store.indices)
    body = _loop(number, order.tiles, _moved(tile, line, lane, store))
    others = copy.others
    if order.inner is not None:
        others = [axis for axis in others if axis is not order.inner]
        body = _nested([order.inner], body)
    if parallel:
        return _shared(others, row, order.rows, body)
    return _nested(others, _loop(row, order.rows, body))


def _moved(tile: Tile, line: Any, lane: Any, store: Any) -> Any:
    """The loops of one tile."""
    body = _loop(lane, tile.read, store, tirx.ForKind.VECTORIZED)
    if tile.mark:
        return _loop(line, tile.written, body, annotations={tile.mark: 1})
    # two strided stores in succession, which JoinedStores makes one
    return _loop(line, PAIR, body, tirx.ForKind.UNROLLED)


def _place(axis: BlockAxis, number: Any, size: int, inside: Any) -> Any:
    """An index from the number of a tile; the last tile may overlap the tile before it."""
    if size == axis.extent:
        return inside
    first = number * size
    if axis.extent % size:
        first = tirx.min(first, tirx.IntImm(str(axis.var.ty.dtype), axis.extent - size))
    return first + inside


def _nested(others: list[BlockAxis], body: Any) -> Any:
    """Loops over the outer axes, so that no index takes a division."""
    # several copies of a function have the same axes
    loops = [(ir.Var("outer", axis.var.ty), axis) for axis in others]
    body = substitute(body, {axis.var: var for var, axis in loops})
    for var, axis in reversed(loops):
        body = _loop(var, axis.extent, body)
    return body


def _shared(others: list[BlockAxis], row: Any, rows: int, body: Any) -> Any:
    """One loop over all outer axes, which threads share."""
    task = ir.Var("task", row.ty)
    values, rest = {row: task % rows}, task // rows
    for axis in reversed(others):
        values[axis.var] = rest % axis.extent
        rest = rest // axis.extent
    extent = prod(axis.extent for axis in others) * rows
    kind = tirx.ForKind.PARALLEL if extent > 1 else tirx.ForKind.SERIAL
    return _loop(task, extent, substitute(body, values), kind)


def _loop(var: Any, extent: Any, body: Any, kind: Any = None, annotations: Any = None) -> Any:
    kind = tirx.ForKind.SERIAL if kind is None else kind
    first = tirx.IntImm(str(var.ty.dtype), 0)
    end = tirx.IntImm(str(var.ty.dtype), extent) if isinstance(extent, int) else extent
    return tirx.For(var, first, end, kind, body, annotations=annotations)
