"""Transposes copies in registers, one square of vectors at a time."""

from __future__ import annotations

from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.annotations import TRANSPOSE, TRANSPOSE_LANES, TRANSPOSE_NEIGHBORS
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.interleave import LANE_BYTES, Kept, interleaved, lane_indices, shuffle
from tvmconv.tir.general.rewrite import (
    function_pass,
    item_bytes,
    replace_marked,
    substitute,
)

# the side of the smallest square
_PART = 4


def TransposeCopies() -> Any:
    """A pass that transposes marked copies in registers.

    Pattern: a marked loop around a vectorized loop whose body copies one element. The source is
    contiguous along one of the two loops, the destination along the other. The side of a square
    is a power of two from 4 on.

    Rewrite: squares of the copy are loaded as vectors, transposed by shuffles of two vectors, and
    stored as vectors. Loops that do not fit the pattern are unchanged. The other annotation makes
    rectangles: each 128-bit lane of a register is a square of its own. The short side is moved as
    pieces of a register, the long one as whole registers. Two or three elements are no piece: where
    such lines follow each other, they are one long vector, whose elements are shuffled at once.

    Why here: VectorizeLoop makes one side of such a copy a gather or a scatter. LLVM lowers it to
    one load or store per element.
    """
    return function_pass("TransposeCopies", _transpose_copies)


def _transpose_copies(func: Any) -> Any:
    rules = {
        TRANSPOSE: lambda loop, _value: _squares(loop) or loop,
        TRANSPOSE_LANES: lambda loop, _value: _rectangle(loop) or loop,
        TRANSPOSE_NEIGHBORS: lambda loop, _value: _neighbors(loop) or loop,
    }
    return replace_marked(func, rules)


def _copy(outer: Any) -> tuple[Any, tuple[Any, Any], int, int] | None:
    """The copy of two loops, the loops, the loop along source lines, and the filled iterations.

    None if the loops do not fit the pattern.
    """
    inner = outer.body
    if not isinstance(inner, tirx.For) or not isinstance(inner.body, tirx.BufferStore):
        return None
    loops, store = (outer, inner), inner.body
    filled, load = _filled(store.value, outer.loop_var, int(outer.extent))
    if not isinstance(load, ir.TensorLoad):
        return None
    store = tirx.BufferStore(store.buffer, load, store.indices)
    along, across = _contiguous(load.indices, loops), _contiguous(store.indices, loops)
    if along is None or across != 1 - along:
        return None
    return store, loops, along, filled


def _squares(outer: Any) -> Any:
    """The loops as transposed squares; None if they do not fit the pattern."""
    if (found := _copy(outer)) is None:
        return None
    store, loops, along, filled = found
    extents = [int(loop.extent) for loop in loops]
    # pad any number of rows to a square, so that vectors have their whole length
    side = extents[along] if extents[1 - along] % extents[along] else min(extents)
    if side < _PART or side & (side - 1) or extents[along] % side:
        return None
    if filled < extents[0] and (along == 0 or side != extents[0]):
        return None
    statements: list[Any] = []
    for first in range(0, extents[0], side):
        for second in range(0, extents[1], side):
            lines = min(side, extents[1 - along] - (second, first)[along])
            square = _square(store, loops, (first, second), along, side, lines, min(lines, filled))
            statements += square
    return tirx.SeqStmt(statements)


def _filled(value: Any, var: Any, extent: int) -> tuple[int, Any]:
    """For how many first iterations a value is copied, and is not zero; and what is copied."""
    if isinstance(value, ir.Call) and is_select(value):
        condition, copied, other = value.args
        known = isinstance(condition, tirx.LT) and condition.a.same_as(var)
        zero = isinstance(other, tirx.IntImm | tirx.FloatImm) and float(other.value) == 0
        if known and zero and isinstance(condition.b, tirx.IntImm):
            return int(condition.b), copied
    return extent, value


def _contiguous(indices: Any, loops: tuple[Any, Any]) -> int | None:
    """The loop that advances the last index by one element, and no other index."""
    analyzer = sym.Analyzer()
    found = None
    for number, loop in enumerate(loops):
        var, last = loop.loop_var, int(loop.extent) - 1
        analyzer.bind(var, ir.Range.from_min_extent(loop.min, loop.extent))
        if (
            all(_advances(analyzer, index, var, last, 0) for index in indices[:-1])
            and _advances(analyzer, indices[-1], var, 1, 1)
            and _advances(analyzer, indices[-1], var, last, last)
        ):
            found = number
    return found


def _advances(analyzer: Any, index: Any, var: Any, steps: int, distance: int) -> bool:
    """Whether ``steps`` steps of a loop from its start move an index by ``distance``."""
    moved = analyzer.simplify(substitute(index, {var: steps}) - substitute(index, {var: 0}))
    return isinstance(moved, tirx.IntImm) and int(moved) == distance


def _line(
    indices: Any,
    loops: tuple[Any, Any],
    first: tuple[int, int],
    direction: int,
    line: int,
    size: int,
) -> list[Any]:
    """Indices of ``size`` neighbors along one loop, at iteration ``line`` of the other loop."""
    place = {
        loops[direction].loop_var: first[direction],
        loops[1 - direction].loop_var: first[1 - direction] + line,
    }
    *outer, last = [substitute(index, place) for index in indices]
    if size == 1:
        return [*outer, last]
    return [*outer, tirx.Ramp(last, tirx.IntImm(str(last.ty.dtype), 1), size)]


def _square(
    store: Any,
    loops: tuple[Any, Any],
    first: tuple[int, int],
    along: int,
    side: int,
    lines: int,
    filled: int,
) -> list[Any]:
    """Statements that copy one square; ``along`` is the loop over ``lines`` source vectors.

    The vectors after ``filled`` hold zeros.
    """
    load, dtype = store.value, str(store.value.source.dtype)
    kept = Kept(dtype)
    rows = [
        kept(tirx.BufferLoad(load.source, _line(load.indices, loops, first, along, line, side)))
        for line in range(filled)
    ]
    rows += [tirx.Broadcast(tirx.const(0, dtype), side)] * (side - filled)
    for line, row in enumerate(_transposed(rows, kept)):
        used = row if lines == side else tirx.Shuffle([row], list(range(lines)))
        place = _line(store.indices, loops, first, 1 - along, line, lines)
        kept.statements.append(tirx.BufferStore(store.buffer, used, place))
    return kept.statements


def _transposed(rows: list[Any], kept: Kept) -> list[Any]:
    """The columns of a square: transpose squares of lanes, then exchange whole lanes."""
    side = len(rows)
    part = min(side, LANE_BYTES // item_bytes(kept.dtype))
    # parts[column within a lane][row group]
    parts: list[list[Any]] = [[] for _ in range(part)]
    for first in range(0, side, part):
        columns = interleaved(rows[first : first + part], part, part.bit_length() - 1, kept)
        for group, column in zip(parts, columns, strict=True):
            group.append(column)
    distance = part
    while distance < side:
        lower, upper = (
            [(lane & ~distance | half) + side * (lane & distance != 0) for lane in range(side)]
            for half in (0, distance)
        )
        step = distance // part
        for group in parts:
            for i in (i for i in range(side // part) if not i & step):
                pair = group[i], group[i + step]
                group[i] = kept(shuffle(*pair, lower))
                group[i + step] = kept(shuffle(*pair, upper))
        distance *= 2
    return [parts[column % part][column // part] for column in range(side)]


def _rectangle(outer: Any) -> Any:
    """The loops as one rectangle of lanes; None if they do not fit the pattern.

    Each round of :func:`interleaved` rotates the bits of (register, place in a lane) to the left.
    Pieces are ordered so that the last round leaves neighbors along the result's lines.
    """
    if (found := _copy(outer)) is None:
        return None
    store, loops, along, filled = found
    extents = [int(loop.extent) for loop in loops]
    load, dtype = store.value, str(store.value.source.dtype)
    lane, first = LANE_BYTES // item_bytes(dtype), (0, 0)
    read, written = extents[along], extents[1 - along]
    short, long = sorted((read, written))
    if filled < extents[0] or short < 2 or short & (short - 1) or short > lane or long % lane:
        return None
    pieces = lane_indices(long, lane, short)
    kept = Kept(dtype)

    def loaded(line: int, size: int) -> Any:
        return tirx.BufferLoad(load.source, _line(load.indices, loops, first, along, line, size))

    def stored(value: Any, direction: int, line: int, size: int) -> None:
        place = _line(store.indices, loops, first, direction, line, size)
        kept.statements.append(tirx.BufferStore(store.buffer, value, place))

    if read == short:
        vectors = [
            kept(tirx.Shuffle([loaded(line, short) for line in lines], list(range(long))))
            for lines in pieces
        ]
        for line, vector in enumerate(interleaved(vectors, lane, lane.bit_length() - 1, kept)):
            stored(vector, 1 - along, line, long)
        return tirx.SeqStmt(kept.statements)
    vectors = [kept(loaded(line, long)) for line in range(short)]
    vectors = interleaved(vectors, lane, short.bit_length() - 1, kept)
    for vector, lines in zip(vectors, pieces, strict=True):
        for number, line in enumerate(lines):
            piece = list(range(number * short, (number + 1) * short))
            stored(tirx.Shuffle([vector], piece), 1 - along, line, short)
    return tirx.SeqStmt(kept.statements)


def _neighbors(outer: Any) -> Any:
    """The loops as one vector of whole lines; None if they do not fit the pattern.

    LLVM knows the shuffles of two and three interleaved lines.
    """
    if (found := _copy(outer)) is None:
        return None
    store, loops, along, _ = found
    extents = [int(loop.extent) for loop in loops]
    read, written = extents[along], extents[1 - along]
    kept, load, first = Kept(str(store.value.source.dtype)), store.value, (0, 0)

    def loaded(line: int, size: int) -> Any:
        place = _line(load.indices, loops, first, along, line, size)
        return kept(tirx.BufferLoad(load.source, place))

    def stored(value: Any, line: int, size: int) -> None:
        place = _line(store.indices, loops, first, 1 - along, line, size)
        kept.statements.append(tirx.BufferStore(store.buffer, value, place))

    if read < written:
        lines = loaded(0, read * written)
        for line in range(read):
            stored(tirx.Shuffle([lines], list(range(line, read * written, read))), line, written)
    else:
        vectors = [loaded(line, read) for line in range(written)]
        order = [line * read + place for place in range(read) for line in range(written)]
        stored(tirx.Shuffle(vectors, order), 0, read * written)
    return tirx.SeqStmt(kept.statements)
