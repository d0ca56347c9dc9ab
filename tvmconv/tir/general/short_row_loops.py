"""Element-wise loops over rows that are shorter than vectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.general.conditions import conditional_loads
from tvmconv.tir.general.lane_choices import LaneChoices
from tvmconv.tir.general.picked_lanes import picked_lanes, window_of, windows
from tvmconv.tir.general.rewrite import (
    BlockAxis,
    item_bytes,
    local_buffer,
    nest_of,
    nests_of,
    nodes_of,
    outside_of_loads,
    substitute,
    transformed,
)
from tvmconv.tir.general.short_row_nests import BYTE, TRUTH, Rows, is_true, rows_of, stored, widest

# vectors of a group of rows, which are unrolled
_MOST_VECTORS = 32
# vectors of an operand that one vector of results is picked from
_MOST_READ, _MOST_MIXED, _FEW_BYTES = 8, 2, 2


def short_row_loops(func: Any, vector_bytes: int, parallel: bool) -> Any:
    """A function of one spatial block over short rows, as loops without blocks.

    The function is in block form, with as few axes as it can have. ``parallel`` is whether threads
    share the outermost loop. None where rows fill vectors, or where a vector of results needs more
    than two vectors of an operand.
    """
    *declared, last = tirx.stmt_list(func.body.block.body)
    body = _statement_loops(last, vector_bytes, parallel)
    if body is None:
        return None
    # each copy of an expression defines its variables
    body = tirx.stmt_seq(*declared, body)
    return transformed(func.with_body(body), tirx.transform.ConvertSSA())


def short_row_pieces(func: Any, vector_bytes: int, longest: int, parallel: bool) -> dict[int, Any]:
    """Loops of those spatial blocks over short rows that only move elements.

    The function is a sequence of blocks, of which each writes a piece of the result. Several axes
    of fewer than ``longest`` elements are one row. Keys are places in the sequence of blocks.
    """
    found = {}
    for place, statement in enumerate(nests_of(func)):
        if not nodes_of(statement, tirx.Let):
            loops = _statement_loops(statement, vector_bytes, parallel, longest)
            if loops is not None:
                found[place] = loops
    return found


def _statement_loops(
    statement: Any, vector_bytes: int, parallel: bool, longest: int | None = None
) -> Any:
    """The loops of a block's nest; None where it stays a block."""
    block = nest_of(statement)[1].block
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return None
    lanes = vector_bytes // widest(store)
    axes = [BlockAxis(axis.var, int(axis.dom.extent)) for axis in block.iter_vars]
    rows = rows_of(store, axes, lanes, longest or lanes)
    return None if rows is None else _loops(rows, lanes, parallel)


def _loops(rows: Rows, lanes: int, parallel: bool) -> Any:
    """The loops over groups of rows that are whole vectors, and the remaining rows."""
    group = lanes // gcd(lanes, rows.length)
    count, rest = divmod(rows.rows.extent, group)
    if -(-group * rows.length // lanes) > _MOST_VECTORS:
        return None
    number = ir.Var("group", rows.rows.var.ty)
    copies = _Copies(rows, lanes)
    parts = []
    if count:
        body = copies.of(number * group, group)
        shared = parallel and not rows.outer and count > 1
        parts.append(body and _loop(number, count, body, shared))
    if rest:
        parts.append(copies.of(tirx.IntImm(str(number.ty.dtype), count * group), rest))
    if any(part is None for part in parts):
        return None
    body = tirx.stmt_seq(*parts)
    for place, axis in reversed(list(enumerate(rows.outer))):
        body = _loop(axis.var, axis.extent, body, parallel and not place and axis.extent > 1)
    return tirx.stmt_seq(*copies.views.values(), body)


def _loop(var: Any, extent: int, body: Any, parallel: bool) -> Any:
    first, end = (tirx.IntImm(str(var.ty.dtype), value) for value in (0, extent))
    kind = tirx.ForKind.PARALLEL if parallel else tirx.ForKind.SERIAL
    return tirx.For(var, first, end, kind, body)


@dataclass(frozen=True)
class _Part:
    """A load or a constant, and the distances of its elements from the first.

    A distance is None where the element of the result is of another part.
    """

    node: Any
    start: Any
    offsets: list[int | None]


class _Copies:
    """Unrolled vectors of results, each over several rows."""

    def __init__(self, rows: Rows, lanes: int) -> None:
        self._rows, self._lanes = rows, lanes
        self._analyzer = sym.Analyzer()
        self._choices = LaneChoices(rows.store.value, [(a.var, a.extent) for a in rows.inner])
        self._conditional = conditional_loads(self._choices.value)
        self.views: dict[Any, Any] = {}

    def of(self, first: Any, count: int) -> Any:
        """The statements of some rows; None where an operand is read in another way."""
        rows, length = self._rows, count * self._rows.length
        own = [rows.rows, *rows.inner]
        outside = outside_of_loads(self._choices.value)
        if any(axis.var in outside for axis in own):
            return None
        operands = []
        for load in nodes_of(self._choices.value, ir.TensorLoad):
            leaves = self._choices.leaves.get(load.source, [(load, [True] * rows.length)])
            parts = [self._part(leaf, first, chosen * count) for leaf, chosen in leaves]
            if any(part is None for part in parts):
                return None
            operands.append((load, parts))
        statements = []
        # the last vector overlaps the previous one: LLVM cuts vectors of other lengths
        lanes = min(self._lanes, 1 << (length.bit_length() - 1))
        for begin in windows(length, lanes):
            found = self._vector(first, operands, begin, lanes)
            if found is None:
                return None
            statements += found
        return tirx.stmt_seq(*statements)

    def _part(self, leaf: Any, first: Any, chosen: list[bool]) -> _Part | None:
        if not isinstance(leaf, ir.TensorLoad):
            return _Part(leaf, None, [0 if used else None for used in chosen])
        if any(nodes_of(index, ir.TensorLoad) for index in leaf.indices):
            return None
        offsets = self._offsets(leaf, len(chosen))
        if offsets is None:
            return None
        start = substitute(self._place(leaf.source, leaf.indices), self._start(first))
        own = [offset if used else None for offset, used in zip(offsets, chosen, strict=True)]
        return _Part(leaf, start, own)

    def _start(self, first: Any) -> dict[Any, Any]:
        return {self._rows.rows.var: first, **{axis.var: 0 for axis in self._rows.inner}}

    def _place(self, buffer: Any, indices: Any) -> Any:
        """The place of an element in a buffer that is seen as one row."""
        place: Any = 0
        for index, size in zip(indices, buffer.shape, strict=True):
            place = place * int(size) + index
        return place

    def _offsets(self, load: Any, length: int) -> list[int] | None:
        """Distances of the operand's elements from the first; None if they are not constant."""
        if load.source.strides:
            return None
        place = self._place(load.source, load.indices)
        steps = []
        for axis in (self._rows.rows, *self._rows.inner):
            step = self._analyzer.simplify(substitute(place, {axis.var: axis.var + 1}) - place)
            if not isinstance(step, tirx.IntImm):
                return None
            steps.append((axis.extent, int(step)))
        offsets = []
        for number in range(length):
            offset, rest = 0, number
            for extent, step in reversed(steps[1:]):
                rest, index = divmod(rest, extent)
                offset += index * step
            offsets.append(offset + rest * steps[0][1])
        return offsets

    def _vector(self, first: Any, operands: list[Any], begin: int, count: int) -> list[Any] | None:
        """The statements of one vector of results."""
        store, statements, values = self._rows.store, list[Any](), []
        lane = ir.Var("lane", self._rows.rows.var.ty)
        for load, parts in operands:
            own = [part for part in parts if set(part.offsets[begin : begin + count]) != {None}]
            value = self._run(own, begin, count, lane)
            if value is None:
                # lanes are picked before the condition, which may be that the elements exist
                conditional = any(load.same_as(other) for other in self._conditional)
                picked = None if conditional else self._picked(own, begin, count)
                if picked is None:
                    return None
                lanes = local_buffer((count,), stored(load.source), "lanes")
                place = _ramp(tirx.IntImm("int32", 0), count)
                statements += [tirx.AllocBuffer(lanes), tirx.BufferStore(lanes, picked, [place])]
                value = tirx.BufferLoad(lanes, [lane])
            values.append((load, is_true(value) if str(load.source.dtype) == TRUTH else value))

        def replaced(node: Any) -> Any:
            return next(new for old, new in values if tvm_ffi.structural_equal(old, node))

        value = tvm_ffi.structural_map(self._choices.value, (ir.TensorLoad, replaced))
        if str(store.buffer.dtype) == TRUTH:
            value = tirx.Cast(BYTE, value)
        place = substitute(self._place(store.buffer, store.indices), self._start(first))
        result = tirx.BufferStore(self._view(store.buffer), value, [place + begin + lane])
        kind = tirx.ForKind.VECTORIZED if count > 1 else tirx.ForKind.SERIAL
        zero, end = (tirx.IntImm(str(lane.ty.dtype), number) for number in (0, count))
        return [*statements, tirx.For(lane, zero, end, kind, result)]

    def _run(self, parts: list[_Part], begin: int, count: int, lane: Any) -> Any:
        """The value at a lane where all are neighbors or the same; None where they are not."""
        part, *others = parts
        own = [offset for offset in part.offsets[begin : begin + count] if offset is not None]
        if others or len(own) < count:
            return None
        if min(own) == max(own):
            return self._single(part, own[0])
        if own == list(range(own[0], own[0] + count)):
            return tirx.BufferLoad(self._view(part.node.source), [part.start + own[0] + lane])
        return None

    def _single(self, part: _Part, offset: int) -> Any:
        """One element of a part."""
        if part.start is None:
            node = part.node
            return tirx.IntImm(BYTE, int(node)) if str(node.ty.dtype) == TRUTH else node
        return tirx.BufferLoad(self._view(part.node.source), [part.start + offset])

    def _picked(self, parts: list[_Part], begin: int, count: int) -> Any:
        """Lanes of a vector of each part; None where a part is spread over more than two."""
        vectors: list[Any] = []
        picks = [0] * count
        taken, others = 0, parts[1:]
        for part in parts:
            own = part.offsets[begin : begin + count]
            known = [offset for offset in own if offset is not None]
            low, width = self._span(part, known)
            if width > self._lanes and len(known) == count and not others:
                most = self._most_read(part, known)
                fits = width <= most * self._lanes
                return self._from_several(part, low, width, known) if fits else None
            if width > _MOST_MIXED * self._lanes:
                return None
            if width == 1:
                value, width = self._single(part, low), count
                vectors.append(tirx.Broadcast(value, width))
                starts = [0]
            else:
                # LLVM cuts vectors of other lengths than powers of two
                side = 1 << (width.bit_length() - 1)
                view, starts = self._view(part.node.source), windows(width, side)
                for start in starts:
                    neighbors = _ramp(part.start + low + start, side)
                    vectors.append(tirx.BufferLoad(view, [neighbors]))
                width = side
            for place, offset in enumerate(own):
                if offset is not None:
                    number, lane = window_of(offset - low, starts)
                    picks[place] = taken + number * width + lane
            taken += len(starts) * width
        # TVM's shuffle has no more lanes than its operands
        return tirx.Shuffle(vectors * -(-count // taken), picks)

    def _most_read(self, part: _Part, own: list[int]) -> int:
        """Vectors of an operand that one vector of results may read.

        A step along the operand, and elements of few bytes, are worth more of them than other
        orders, for which tiles are transposed.
        """
        steps = [b - a for a, b in pairwise(own)]
        ordered = all(step >= 0 for step in steps) or all(step <= 0 for step in steps)
        few = item_bytes(stored(part.node.source)) <= _FEW_BYTES
        return min(_MOST_READ, self._lanes // 2) if ordered or few else _MOST_MIXED

    def _from_several(self, part: _Part, low: int, width: int, own: list[int]) -> Any:
        """Lanes of the vectors that cover ``width`` elements of a part."""
        starts, view = windows(width, self._lanes), self._view(part.node.source)
        loaded = [
            tirx.BufferLoad(view, [_ramp(part.start + low + start, self._lanes)])
            for start in starts
        ]
        return picked_lanes(loaded, [window_of(offset - low, starts) for offset in own])

    def _span(self, part: _Part, own: list[int]) -> tuple[int, int]:
        """The first element and the length of a vector that has some elements of a part.

        It is a whole vector where the group of rows has that many elements: LLVM cuts vectors of
        other lengths.
        """
        every = [offset for offset in part.offsets if offset is not None]
        first, last = min(every), max(every)
        if last - first < self._lanes:
            # all vectors of the rows are lanes of one
            return first, last - first + 1
        low = min(*own, last - self._lanes + 1)
        return low, max(max(own) - low + 1, self._lanes)

    def _view(self, buffer: Any) -> Any:
        """A buffer as one row."""
        if len(buffer.shape) == 1 and stored(buffer) == str(buffer.dtype):
            return buffer
        if buffer not in self.views:
            size = prod(int(extent) for extent in buffer.shape)
            row = tirx.decl_buffer(
                [tirx.IntImm(str(self._rows.rows.var.ty.dtype), size)],
                stored(buffer),
                buffer.name,
                scope=buffer.scope(),
                layout=None,
            )
            self.views[buffer] = tirx.DeclBuffer(row, data=buffer.data)
        return self.views[buffer].buffer


def _ramp(first: Any, lanes: int) -> Any:
    return tirx.Ramp(first, tirx.IntImm(str(first.ty.dtype), 1), lanes)
