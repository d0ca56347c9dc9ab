"""The tiles of a copy that transposes, and the order in which caches like them best."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from tvm import sym, tirx

from tvmconv.tir.annotations import TRANSPOSE, TRANSPOSE_LANES, TRANSPOSE_NEIGHBORS
from tvmconv.tir.general.interleave import LANE_BYTES
from tvmconv.tir.general.rewrite import BlockAxis, item_bytes, substitute, uses

# neighbors of the result that two operand lines give alternately
PAIR = 2
# the shortest square is a part of a register; the longest one fits into the registers
_PART, _MOST = 4, 16
# the shortest piece of a register
_PIECE_BYTES = 4
# lines of so few elements are shorter than a piece
_FEW = (2, 3)
# elements of so few bytes make squares of few bytes, where so many lines follow each other
FEW_BYTES, _MOST_LINES = 2, 8
# neighbors along a line that are moved before the next lines
_BLOCK = 128
_CACHE_LINE = 64
# lines of the result up to which the next axis continues them
_SHORT_BYTES = 4 * _CACHE_LINE
# lines of the operand, and of the result, at multiples of these distances share few cache sets
_READ_SETS, _WRITTEN_SETS = 512, 2048
# streams of stores whose lines stay in one set of the first cache
STREAMS = 8
# bytes after which the sets of the first cache repeat
_WAY_BYTES = 4096
# a block of operand lines that stays in the first cache
_NEAR_BYTES = 1 << 15
# lines of the result that are so close to each other that any order of them is good
_CLOSE_BYTES = 512


@dataclass(frozen=True)
class TransposedCopy:
    """``store[..., read, ..., written] = load[..., written, ..., read]`` over dense buffers.

    Only the first ``filled`` elements of a line of the result are copied. The others are zeros.
    """

    store: Any
    load: Any
    others: list[BlockAxis]
    read: BlockAxis
    written: BlockAxis
    filled: int

    @property
    def item(self) -> int:
        """Bytes of an element."""
        return item_bytes(str(self.store.value.ty.dtype))

    @property
    def repeated(self) -> bool:
        """Whether elements of a line of the result are equal."""
        return not any(uses(index, self.written.var) for index in self.load.indices)

    def read_distance(self) -> int:
        """Bytes between neighboring lines of the operand; 0 if they vary."""
        return self.item * distance(self.load.source, self.load.indices, self.written)

    def written_distance(self, axis: BlockAxis | None = None) -> int:
        """Bytes between neighbors of the result along an axis, by default between its lines."""
        return self.item * distance(self.store.buffer, self.store.indices, axis or self.read)


def distance(buffer: Any, indices: Any, axis: Any) -> int:
    """Elements between neighbors of a dense buffer along an axis; 0 if they are not constant."""
    place: Any = 0
    for index, size in zip(indices, buffer.shape, strict=True):
        place = place * int(size) + index
    step = sym.Analyzer().simplify(substitute(place, {axis.var: axis.var + 1}) - place)
    return int(step) if isinstance(step, tirx.IntImm) else 0


@dataclass(frozen=True)
class Tile:
    """Elements that are moved at once, along a line of the operand and of the result."""

    read: int
    written: int
    mark: str


def tile_of(copy: TransposedCopy, vector_bytes: int) -> Tile | None:
    """A square of vectors, or a rectangle of lanes; None where neither fits."""
    item = copy.item
    lanes, lane = vector_bytes // item, max(1, LANE_BYTES // item)
    read, written = copy.read.extent, copy.written.extent
    partly = copy.filled < written
    if copy.repeated and written > lanes:
        # whole vectors repeat one element
        return None
    if written == PAIR:
        side = _power(min(lanes, _MOST, read))
        return Tile(side, PAIR, "") if side >= _PART else None
    if not partly and not copy.repeated:
        short = min(read, written)
        if short in _FEW or (item <= FEW_BYTES and short <= _MOST_LINES):
            neighbors = _neighbors(copy, lanes)
            if neighbors is not None or short in _FEW:
                return neighbors
        found = _rectangle(read, written, lanes, lane)
        if (square := _whole_lines(copy, lanes)) is not None:
            return square
        if found and min(found.read, found.written) * item >= _PIECE_BYTES:
            return found
    side = _power(min(lanes, _MOST, read, written))
    if side < _PART or (partly and side != written):
        return None
    return Tile(side, side, TRANSPOSE)


def _whole_lines(copy: TransposedCopy, lanes: int) -> Tile | None:
    """A square that reads cache lines once, or stores to few of one set; None for other copies.

    A rectangle of lanes reads a cache line in several passes. Lines of the operand that share sets
    of the caches are evicted in between.
    """
    read, written = copy.read.extent, copy.written.extent
    if _next_axis(copy) is not None:
        side = _power(min(lanes, STREAMS, read, written))
        return Tile(side, side, TRANSPOSE) if side >= _PART else None
    if lanes > _MOST or min(read, written) < lanes or not _is_far(copy):
        return None
    return Tile(lanes, lanes, TRANSPOSE)


def _is_far(copy: TransposedCopy) -> bool:
    """Whether caches lose lines of the operand before all tiles have read them."""
    apart = copy.read_distance()
    if copy.written.extent > copy.read.extent:
        # a square opens more lines of the result than a rectangle
        shared = copy.written_distance() % _WRITTEN_SETS == 0
        if apart * _BLOCK <= _NEAR_BYTES * (1 + shared):
            return False
    return apart > 0 and apart % _READ_SETS == 0


def _next_axis(copy: TransposedCopy) -> BlockAxis | None:
    """The axis that continues short lines of the result which share sets of the cache."""
    length = copy.written.extent * copy.item
    if length > _SHORT_BYTES or copy.read.extent <= STREAMS:
        return None
    apart = copy.written_distance()
    kept = STREAMS * (_WAY_BYTES // gcd(apart, _WAY_BYTES))
    if not apart or (apart % _WRITTEN_SETS and copy.read.extent <= kept):
        return None
    found = (axis for axis in copy.others if copy.written_distance(axis) == length)
    return next(found, None)


def _neighbors(copy: TransposedCopy, lanes: int) -> Tile | None:
    """A rectangle whose short lines follow each other in memory; None where they do not."""
    if copy.read.extent < copy.written.extent:
        short, long, buffer, indices = copy.read, copy.written, copy.load.source, copy.load.indices
    else:
        short, long = copy.written, copy.read
        buffer, indices = copy.store.buffer, copy.store.indices
    size = _power(min(lanes, long.extent))
    # the longer side of a tile is how TransposeCopies knows which lines follow each other
    if size < _PART or size <= short.extent:
        return None
    if len(indices) < 2 or not indices[-2].same_as(long.var):
        return None
    if int(buffer.shape[-1]) != short.extent or any(uses(i, long.var) for i in indices[:-2]):
        return None
    sizes = (short.extent, size) if short is copy.read else (size, short.extent)
    return Tile(*sizes, TRANSPOSE_NEIGHBORS)


def _rectangle(read: int, written: int, lanes: int, lane: int) -> Tile | None:
    """The larger one of two rectangles: pieces of registers are loaded, or are stored."""
    sizes = ((min(lane, read), min(lanes, written)), (min(lanes, read), min(lane, written)))
    found = [Tile(_power(a), _power(b), TRANSPOSE_LANES) for a, b in sizes if max(a, b) >= lane]
    return max(found, key=lambda tile: tile.read * tile.written, default=None)


def _power(number: int) -> int:
    """The largest power of two that does not exceed a number."""
    return 1 << (number.bit_length() - 1)


@dataclass(frozen=True)
class TileOrder:
    """The numbers of tiles along both lines, and the extents of the loops ``row`` and ``number``.

    The loop over the axis ``inner``, if there is one, is between these loops.
    """

    read: Any
    written: Any
    rows: int
    tiles: Any
    inner: BlockAxis | None = None


def order_of(copy: TransposedCopy, tile: Tile, row: Any, number: Any) -> TileOrder:
    """The order of tiles.

    Tiles follow the result's lines. Few lines of the result are open at a time, and the operand's
    lines stay in the cache until the last tile has read them. Lines of the result that are close to
    each other are written in blocks along the operand's lines, which may be far from each other.
    """
    read, written = (
        -(-axis.extent // size)
        for axis, size in ((copy.read, tile.read), (copy.written, tile.written))
    )
    if (inner := _next_axis(copy)) is not None:
        return TileOrder(row, number, read, written, inner)
    square = _whole_lines(copy, tile.read) is not None
    if copy.written.extent > copy.read.extent and not square:
        along, across, rows, tiles = _blocks(written, tile.written, read, row, number)
        return TileOrder(across, along, rows, tiles)
    close = square and copy.written_distance() <= _CLOSE_BYTES
    if written == 1 or close:
        return TileOrder(*_blocks(read, tile.read, written, row, number))
    # the tiles of a cache line of the operand follow each other
    tiles = max(1, _CACHE_LINE // (tile.read * copy.item)) if square else 1
    if tiles == 1 or read == 1:
        return TileOrder(row, number, read, written)
    last = tirx.IntImm(str(row.ty.dtype), read - 1)
    along = row * tiles + number % tiles
    along = tirx.min(along, last) if read % tiles else along
    return TileOrder(along, number // tiles, -(-read // tiles), written * tiles)


def _blocks(count: int, size: int, lines: int, row: Any, number: Any) -> tuple[Any, Any, int, Any]:
    """Tiles in blocks of a line, and lines of tiles inside of a block; see :func:`order_of`."""
    most = min(count, max(1, _BLOCK // size))
    first, tiles = row // lines * most, most
    if count % most:
        kind = str(row.ty.dtype)
        tiles = tirx.min(tirx.IntImm(kind, most), tirx.IntImm(kind, count) - first)
    return first + number, row % lines, -(-count // most) * lines, tiles
