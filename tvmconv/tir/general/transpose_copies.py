"""Transposes copies in registers, one square of vectors at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.annotations import TRANSPOSE, TRANSPOSE_LANES, TRANSPOSE_NEIGHBORS
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.interleave import LANE_BYTES, Kept, interleaved, lane_indices, shuffle
from tvmconv.tir.general.picked_lanes import picked_lanes
from tvmconv.tir.general.rewrite import function_pass, item_bytes, replace_marked, substitute

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
    pieces of a register, the long one as whole registers. Lines of two or three elements are
    shorter than a piece. Where they follow each other, they are one long vector, whose elements
    are shuffled at once.

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


@dataclass(frozen=True, eq=False)
class _Copy:
    """A copy of one element in two loops, the loop ``along`` over the elements of source lines.

    The outer loop copies in its first ``filled`` iterations, and writes zeros in the others.
    """

    store: Any
    loops: tuple[Any, Any]
    along: int
    filled: int

    @property
    def extents(self) -> tuple[int, int]:
        """Iterations of the loops."""
        outer, inner = self.loops
        return int(outer.extent), int(inner.extent)

    @property
    def read(self) -> int:
        """Elements of a source line."""
        return self.extents[self.along]

    @property
    def written(self) -> int:
        """Elements of a line of the destination."""
        return self.extents[1 - self.along]

    @property
    def dtype(self) -> str:
        """Type of an element."""
        return str(self.store.value.source.dtype)

    def loaded(
        self, line: int, size: int, first: tuple[int, int] = (0, 0), skipped: int = 0
    ) -> Any:
        """``size`` neighbors of a source line, after some elements.

        ``first`` is where the loops begin.
        """
        load = self.store.value
        place = self._line(load.indices, self.along, line, size, first, skipped)
        return tirx.BufferLoad(load.source, place)

    def stored(
        self, value: Any, line: int, size: int, first: tuple[int, int] = (0, 0), skipped: int = 0
    ) -> Any:
        """The store of ``size`` neighbors of a line of the destination, after some elements."""
        place = self._line(self.store.indices, 1 - self.along, line, size, first, skipped)
        return tirx.BufferStore(self.store.buffer, value, place)

    def _line(
        self,
        indices: Any,
        direction: int,
        line: int,
        size: int,
        first: tuple[int, int],
        skipped: int,
    ) -> list[Any]:
        """Indices of neighbors along one loop, at iteration ``line`` of the other loop."""
        place = {
            self.loops[direction].loop_var: first[direction],
            self.loops[1 - direction].loop_var: first[1 - direction] + line,
        }
        *outer, last = [substitute(index, place) for index in indices]
        last = last + skipped if skipped else last
        if size == 1:
            return [*outer, last]
        return [*outer, tirx.Ramp(last, tirx.IntImm(str(last.ty.dtype), 1), size)]


def _copy(outer: Any) -> _Copy | None:
    """The copy of a loop and the loop in it; None if they do not fit the pattern."""
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
    return _Copy(store, loops, along, filled)


def _squares(outer: Any) -> Any:
    """The loops as transposed squares; None if they do not fit the pattern."""
    if (copy := _copy(outer)) is None:
        return None
    extents, along = copy.extents, copy.along
    # pad any number of rows to a square, so that vectors have their whole length
    side = copy.read if copy.written % copy.read else min(extents)
    if side < _PART or side & (side - 1) or copy.read % side:
        return None
    if copy.filled < extents[0] and (along == 0 or side != extents[0]):
        return None
    statements: list[Any] = []
    for first in range(0, extents[0], side):
        for second in range(0, extents[1], side):
            lines = min(side, copy.written - (second, first)[along])
            statements += _square(copy, (first, second), side, lines)
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


def _square(copy: _Copy, first: tuple[int, int], side: int, lines: int) -> list[Any]:
    """Statements that copy one square of ``lines`` source vectors, or fill the last ones with 0."""
    kept, filled = Kept(copy.dtype), min(lines, copy.filled)
    rows = [kept(copy.loaded(line, side, first)) for line in range(filled)]
    rows += [tirx.Broadcast(tirx.const(0, copy.dtype), side)] * (side - filled)
    for line, row in enumerate(_transposed(rows, kept)):
        used = row if lines == side else tirx.Shuffle([row], list(range(lines)))
        kept.statements.append(copy.stored(used, line, lines, first))
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
    if (copy := _copy(outer)) is None:
        return None
    kept, lane = Kept(copy.dtype), LANE_BYTES // item_bytes(copy.dtype)
    short, long = sorted(copy.extents)
    zeros = copy.filled < copy.extents[0]
    if zeros or short < 2 or short & (short - 1) or short > lane or long % lane:
        return None
    pieces = lane_indices(long, lane, short)
    if copy.read == short:
        vectors = [
            kept(tirx.Shuffle([copy.loaded(line, short) for line in lines], list(range(long))))
            for lines in pieces
        ]
        for line, vector in enumerate(interleaved(vectors, lane, lane.bit_length() - 1, kept)):
            kept.statements.append(copy.stored(vector, line, long))
        return tirx.SeqStmt(kept.statements)
    vectors = [kept(copy.loaded(line, long)) for line in range(short)]
    vectors = interleaved(vectors, lane, short.bit_length() - 1, kept)
    for vector, lines in zip(vectors, pieces, strict=True):
        for number, line in enumerate(lines):
            piece = list(range(number * short, (number + 1) * short))
            kept.statements.append(copy.stored(tirx.Shuffle([vector], piece), line, short))
    return tirx.SeqStmt(kept.statements)


def _neighbors(outer: Any) -> Any:
    """The loops as one vector of whole lines; None if they do not fit the pattern.

    LLVM knows the shuffles of two and three interleaved lines. More lines are several vectors.
    """
    if (copy := _copy(outer)) is None:
        return None
    kept, read, written = Kept(copy.dtype), copy.read, copy.written
    if min(read, written) >= _PART:
        return _many_neighbors(copy, kept)
    if read < written:
        lines = kept(copy.loaded(0, read * written))
        for line in range(read):
            vector = tirx.Shuffle([lines], list(range(line, read * written, read)))
            kept.statements.append(copy.stored(vector, line, written))
    else:
        vectors = [kept(copy.loaded(line, read)) for line in range(written)]
        order = [line * read + place for place in range(read) for line in range(written)]
        kept.statements.append(copy.stored(tirx.Shuffle(vectors, order), 0, read * written))
    return tirx.SeqStmt(kept.statements)


def _many_neighbors(copy: _Copy, kept: Kept) -> Any:
    """Lines of the shorter side, which follow each other, as vectors of the longer side."""
    read, written = copy.read, copy.written
    if read < written:
        vectors = [kept(copy.loaded(0, written, skipped=n * written)) for n in range(read)]
        for line in range(read):
            picks = [divmod(line + place * read, written) for place in range(written)]
            kept.statements.append(copy.stored(picked_lanes(vectors, picks), line, written))
    else:
        vectors = [kept(copy.loaded(line, read)) for line in range(written)]
        for n in range(written):
            places = [divmod(n * read + i, written) for i in range(read)]
            value = picked_lanes(vectors, [(line, place) for place, line in places])
            kept.statements.append(copy.stored(value, 0, read, skipped=n * read))
    return tirx.SeqStmt(kept.statements)
