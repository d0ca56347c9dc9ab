"""The loops of a copy that transposes, over squares of vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.annotations import TRANSPOSE, TRANSPOSE_LANES, TRANSPOSE_NEIGHBORS
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.interleave import LANE_BYTES
from tvmconv.tir.general.rewrite import item_bytes, nest_of, substitute, uses

# the shortest square is a part of a register; the longest one fits into the registers
_PART, _MOST = 4, 16
# neighbors of the result that two operand lines give alternately
_PAIR = 2
# the shortest piece of a register
_PIECE_BYTES = 4
# lines of so few elements are shorter than a piece
_FEW = (2, 3)
# neighbors along a line of the result that are written before the next lines
_BLOCK = 128


@dataclass(frozen=True, eq=False)
class _CopyAxis:
    """An axis of the copy."""

    var: Any
    extent: int


@dataclass(frozen=True)
class _Copy:
    """``store[..., read, ..., written] = load[..., written, ..., read]`` over dense buffers.

    Only the first ``filled`` elements of a line of the result are copied. The others are zeros.
    """

    store: Any
    load: Any
    others: list[_CopyAxis]
    read: _CopyAxis
    written: _CopyAxis
    filled: int


def transposed_loops(func: Any, vector_bytes: int, parallel: bool) -> Any:
    """A function of one spatial block that is a transposing copy, as loops without blocks.

    The function is in block form, with as few axes as it can have. ``parallel`` is whether threads
    share the outermost loop. None where the block is not a copy whose source and result are
    contiguous along two axes. The last lines of the result may be filled with zeros, as in a
    channel block with fewer channels.
    """
    *declared, last = tirx.stmt_list(func.body.block.body)
    block = nest_of(last)[1].block
    store, axes = block.body, [_CopyAxis(a.var, int(a.dom.extent)) for a in block.iter_vars]
    if not isinstance(store, tirx.BufferStore) or str(store.value.ty.dtype) == "bool":
        # LLVM's vectors of truth values are not those in memory
        return None
    copies = [_copy(*part) for part in _by_blocks(store, axes)]
    parts = [part for copy in copies for part in (_parts(copy) if copy else [None])]
    bodies = [_squares(part, vector_bytes, parallel) if part else None for part in parts]
    if not bodies or None in bodies:
        return None
    return func.with_body(tirx.stmt_seq(*declared, *bodies))


def _by_blocks(store: Any, axes: list[_CopyAxis]) -> list[tuple[Any, list[_CopyAxis]]]:
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
            _CopyAxis(ir.Var("block", kind), blocks),
            _CopyAxis(ir.Var("c", kind), lanes),
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


def _copy(store: Any, axes: list[_CopyAxis]) -> _Copy | None:
    load = _guarded(store.value)[1]
    if not isinstance(load, ir.TensorLoad):
        return None
    read, written = (_last(indices, axes) for indices in (load.indices, store.indices))
    if read is None or written is None or read is written:
        return None
    others = [axis for axis in axes if axis is not read and axis is not written]
    return _Copy(store, load, others, read, written, written.extent)


def _guarded(value: Any) -> tuple[Any, Any]:
    """The condition and the value of a selection between a value and zero; None and the value."""
    if isinstance(value, ir.Call) and is_select(value):
        condition, kept, other = value.args
        if isinstance(other, tirx.IntImm | tirx.FloatImm) and float(other.value) == 0:
            return condition, kept
    return None, value


def _parts(copy: _Copy) -> list[_Copy]:
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
        before = _CopyAxis(axis.var, axis.extent - 1)
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


def _last(indices: Any, axes: list[_CopyAxis]) -> _CopyAxis | None:
    """The axis that is the last index and in no other index; None for other accesses."""
    if not indices:
        return None
    *outer, last = indices
    found = [axis for axis in axes if last.same_as(axis.var)]
    if not found or any(uses(index, found[0].var) for index in outer):
        # it may be the other buffer's last axis, in any place
        return None
    return found[0]


@dataclass(frozen=True)
class _Tile:
    """Elements that are moved at once, along a line of the operand and of the result."""

    read: int
    written: int
    mark: str


def _tile(copy: _Copy, item: int, vector_bytes: int) -> _Tile | None:
    """A rectangle of lanes, or a square of vectors; None where neither fits."""
    lanes, lane = vector_bytes // item, max(1, LANE_BYTES // item)
    read, written = copy.read.extent, copy.written.extent
    partly = copy.filled < written
    repeated = not any(uses(index, copy.written.var) for index in copy.load.indices)
    if repeated and written > lanes:
        # whole vectors repeat one element
        return None
    if written == _PAIR:
        side = _power(min(lanes, _MOST, read))
        return _Tile(side, _PAIR, "") if side >= _PART else None
    if not partly and not repeated:
        if min(read, written) in _FEW:
            return _neighbors(copy, lanes)
        found = _rectangle(read, written, lanes, lane)
        if found and min(found.read, found.written) * item >= _PIECE_BYTES:
            return found
    side = _power(min(lanes, _MOST, read, written))
    if side < _PART or (partly and side != written):
        return None
    return _Tile(side, side, TRANSPOSE)


def _neighbors(copy: _Copy, lanes: int) -> _Tile | None:
    """A rectangle whose short lines follow each other in memory; None where they do not."""
    if copy.read.extent < copy.written.extent:
        short, long, buffer, indices = copy.read, copy.written, copy.load.source, copy.load.indices
    else:
        short, long = copy.written, copy.read
        buffer, indices = copy.store.buffer, copy.store.indices
    size = _power(min(lanes, long.extent))
    if size < _PART or len(indices) < 2 or not indices[-2].same_as(long.var):
        return None
    if int(buffer.shape[-1]) != short.extent or any(uses(i, long.var) for i in indices[:-2]):
        return None
    sizes = (short.extent, size) if short is copy.read else (size, short.extent)
    return _Tile(*sizes, TRANSPOSE_NEIGHBORS)


def _rectangle(read: int, written: int, lanes: int, lane: int) -> _Tile | None:
    """The larger one of two rectangles: pieces of registers are loaded, or are stored."""
    sizes = ((min(lane, read), min(lanes, written)), (min(lanes, read), min(lane, written)))
    found = [_Tile(_power(a), _power(b), TRANSPOSE_LANES) for a, b in sizes if max(a, b) >= lane]
    return max(found, key=lambda tile: tile.read * tile.written, default=None)


def _power(number: int) -> int:
    """The largest power of two that does not exceed a number."""
    return 1 << (number.bit_length() - 1)


def _squares(copy: _Copy, vector_bytes: int, parallel: bool) -> Any:
    tile = _tile(copy, item_bytes(str(copy.store.value.ty.dtype)), vector_bytes)
    if tile is None:
        return None
    row, number, line, lane = (
        ir.Var(name, copy.read.var.ty) for name in ("row", "tile", "line", "lane")
    )
    read, written, rows, tiles = _order(copy, tile, row, number)
    values = {
        copy.read.var: _place(copy.read, read, tile.read, lane),
        copy.written.var: _place(copy.written, written, tile.written, line),
    }
    store = substitute(copy.store, values)
    if copy.filled < copy.written.extent:
        fits = tirx.LT(line, tirx.IntImm(str(line.ty.dtype), copy.filled))
        zero = tirx.const(0, str(store.value.ty.dtype))
        value = tirx.if_then_else(fits, store.value, zero)
        store = tirx.BufferStore(store.buffer, value, store.indices)
    body = _loop(lane, tile.read, store, tirx.ForKind.VECTORIZED)
    if tile.mark:
        body = _loop(line, tile.written, body, annotations={tile.mark: 1})
    else:
        # two strided stores in succession, which JoinedStores makes one
        body = _loop(line, _PAIR, body, tirx.ForKind.UNROLLED)
    body = _loop(number, tiles, body)
    return (_shared if parallel else _nested)(copy.others, row, rows, body)


def _place(axis: _CopyAxis, number: Any, size: int, inside: Any) -> Any:
    """An index from the number of a tile; the last tile may overlap the tile before it."""
    if size == axis.extent:
        return inside
    first = number * size
    if axis.extent % size:
        first = tirx.min(first, tirx.IntImm(str(axis.var.ty.dtype), axis.extent - size))
    return first + inside


def _order(copy: _Copy, tile: _Tile, row: Any, number: Any) -> tuple[Any, Any, int, Any]:
    """The numbers of tiles along both lines, and the extents of the loops ``row`` and ``number``.

    Tiles follow the result's lines. Few lines of the result are open at a time, and the operand's
    lines stay in the cache until the last tile has read them.
    """
    read, written = (
        -(-axis.extent // size)
        for axis, size in ((copy.read, tile.read), (copy.written, tile.written))
    )
    if copy.written.extent > copy.read.extent:
        along, across, rows, tiles = _blocks(written, tile.written, read, row, number)
        return across, along, rows, tiles
    if written == 1:
        return _blocks(read, tile.read, 1, row, number)
    return row, number, read, written


def _blocks(count: int, size: int, lines: int, row: Any, number: Any) -> tuple[Any, Any, int, Any]:
    """Tiles in blocks of a line, and lines of tiles inside of a block; see :func:`_order`."""
    most = min(count, max(1, _BLOCK // size))
    first, tiles = row // lines * most, most
    if count % most:
        kind = str(row.ty.dtype)
        tiles = tirx.min(tirx.IntImm(kind, most), tirx.IntImm(kind, count) - first)
    return first + number, row % lines, -(-count // most) * lines, tiles


def _nested(others: list[_CopyAxis], row: Any, rows: int, body: Any) -> Any:
    """Loops over the outer axes, so that no index takes a division."""
    # several copies of a function have the same axes
    loops = [(ir.Var("outer", row.ty), axis) for axis in others]
    body = substitute(_loop(row, rows, body), {axis.var: var for var, axis in loops})
    for var, axis in reversed(loops):
        body = _loop(var, axis.extent, body)
    return body


def _shared(others: list[_CopyAxis], row: Any, rows: int, body: Any) -> Any:
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
