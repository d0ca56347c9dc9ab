"""Transposes copies in registers, one square of vectors at a time."""

from __future__ import annotations

from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.annotations import TRANSPOSE
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import function_pass, local_buffer, replace_marked, substitute

# FP32 values in a 128-bit lane, within which x86 interleaves
_PART = 4


def TransposeCopies() -> Any:
    """A pass that transposes marked copies in registers.

    Pattern: a marked loop around a vectorized loop whose body copies one element. The source is
    contiguous along one of the two loops, the destination along the other. The side of a square
    is a power of two from 4 on.

    Rewrite: squares of the copy are loaded as vectors, transposed by shuffles of two vectors, and
    stored as vectors. Loops that do not fit the pattern are unchanged.

    Why here: VectorizeLoop makes one side of such a copy a gather or a scatter. LLVM lowers it to
    one load or store per element.
    """
    return function_pass("TransposeCopies", _transpose_copies)


def _transpose_copies(func: Any) -> Any:
    return replace_marked(func, {TRANSPOSE: lambda loop, _value: _moved(loop) or loop})


def _moved(outer: Any) -> Any:
    """The loops as transposed squares; None if they do not fit the pattern."""
    inner = outer.body
    if not isinstance(inner, tirx.For) or not isinstance(inner.body, tirx.BufferStore):
        return None
    loops, store = (outer, inner), inner.body
    extents = [int(loop.extent) for loop in loops]
    filled, load = _filled(store.value, outer.loop_var, extents[0])
    if not isinstance(load, ir.TensorLoad):
        return None
    store = tirx.BufferStore(store.buffer, load, store.indices)
    along, across = _contiguous(load.indices, loops), _contiguous(store.indices, loops)
    if along is None or across != 1 - along:
        return None
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
    load, statements = store.value, []
    names = [loop.loop_var for loop in loops]
    dtype = str(load.source.dtype)

    def vector(indices: Any, line: int, direction: int, length: int) -> list[Any]:
        place = {
            names[direction]: first[direction],
            names[1 - direction]: first[1 - direction] + line,
        }
        *outer, last = [substitute(index, place) for index in indices]
        if length == 1:
            return [*outer, last]
        return [*outer, tirx.Ramp(last, tirx.IntImm(str(last.ty.dtype), 1), length)]

    def keep(value: Any) -> Any:
        """A value in its own buffer, which LLVM promotes to a register."""
        buffer = local_buffer((side,), dtype, "square")
        zero, one = tirx.IntImm("int32", 0), tirx.IntImm("int32", 1)
        ramp = [tirx.Ramp(zero, one, side)]
        statements.append(tirx.AllocBuffer(buffer))
        statements.append(tirx.BufferStore(buffer, value, ramp))
        return tirx.BufferLoad(buffer, ramp)

    rows = [
        keep(tirx.BufferLoad(load.source, vector(load.indices, line, along, side)))
        for line in range(filled)
    ]
    rows += [tirx.Broadcast(tirx.const(0, dtype), side)] * (side - filled)
    for line, row in enumerate(_transposed(rows, keep)):
        used = row if lines == side else tirx.Shuffle([row], list(range(lines)))
        statements.append(
            tirx.BufferStore(store.buffer, used, vector(store.indices, line, 1 - along, lines))
        )
    return statements


def _transposed(rows: list[Any], keep: Any) -> list[Any]:
    """The columns of a square: interleave within lanes of four, then exchange whole lanes."""
    side = len(rows)
    low = _lanes(side, lambda lane: (lane % 2, lane // _PART * _PART + lane % _PART // 2))
    high = _lanes(side, lambda lane: (lane % 2, lane // _PART * _PART + 2 + lane % _PART // 2))
    left = _lanes(side, lambda lane: (lane % _PART // 2, lane // _PART * _PART + lane % 2))
    right = _lanes(side, lambda lane: (lane % _PART // 2, lane // _PART * _PART + 2 + lane % 2))
    # parts[column within a lane][row group]
    parts: list[list[Any]] = [[] for _ in range(_PART)]
    for first in range(0, side, _PART):
        a, b, c, d = rows[first : first + _PART]
        ab, cd = keep(_shuffle(a, b, low)), keep(_shuffle(c, d, low))
        parts[0].append(keep(_shuffle(ab, cd, left)))
        parts[1].append(keep(_shuffle(ab, cd, right)))
        ab, cd = keep(_shuffle(a, b, high)), keep(_shuffle(c, d, high))
        parts[2].append(keep(_shuffle(ab, cd, left)))
        parts[3].append(keep(_shuffle(ab, cd, right)))
    distance = _PART
    while distance < side:
        lower = [(lane & ~distance) + side * (lane & distance != 0) for lane in range(side)]
        upper = [(lane | distance) + side * (lane & distance != 0) for lane in range(side)]
        step = distance // _PART
        for group in parts:
            for i in (i for i in range(side // _PART) if not i & step):
                pair = group[i], group[i + step]
                group[i] = keep(_shuffle(*pair, lower))
                group[i + step] = keep(_shuffle(*pair, upper))
        distance *= 2
    return [parts[column % _PART][column // _PART] for column in range(side)]


def _lanes(side: int, source: Any) -> list[int]:
    """Indices into two concatenated vectors, from (vector, lane) of every lane."""
    pairs = [source(lane) for lane in range(side)]
    return [which * side + lane for which, lane in pairs]


def _shuffle(a: Any, b: Any, indices: list[int]) -> Any:
    return tirx.Shuffle([a, b], indices)
