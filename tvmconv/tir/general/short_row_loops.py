"""Element-wise loops over rows that are shorter than vectors."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.general.rewrite import (
    item_bytes,
    local_buffer,
    nest_of,
    nodes_of,
    substitute,
    transformed,
)

# vectors of a group of rows, which are unrolled
_MOST_VECTORS = 32


@dataclass(frozen=True, eq=False)
class _RowAxis:
    """An axis of the function."""

    var: Any
    extent: int


@dataclass(frozen=True)
class _Rows:
    """``store[outer..., rows, inner...]`` over a dense result, of which ``inner`` are one row."""

    declared: list[Any]
    store: Any
    outer: list[_RowAxis]
    rows: _RowAxis
    inner: list[_RowAxis]

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(axis.extent for axis in self.inner)


def short_row_loops(func: Any, vector_bytes: int, parallel: bool) -> Any:
    """A function of one spatial block over short rows, as loops without blocks.

    The function is in block form, with as few axes as it can have. ``parallel`` is whether threads
    share the outermost loop. None where rows fill vectors, or where a vector of results needs more
    than two vectors of an operand.
    """
    *declared, last = tirx.stmt_list(func.body.block.body)
    block = nest_of(last)[1].block
    store = block.body
    if not isinstance(store, tirx.BufferStore) or str(store.buffer.dtype) == "bool":
        return None
    lanes = vector_bytes // item_bytes(str(store.buffer.dtype))
    axes = [_RowAxis(axis.var, int(axis.dom.extent)) for axis in block.iter_vars]
    rows = _rows(declared, store, axes, lanes)
    body = None if rows is None else _loops(rows, lanes, parallel)
    if body is None:
        return None
    # each copy of an expression defines its variables
    return transformed(func.with_body(tirx.stmt_seq(*declared, body)), tirx.transform.ConvertSSA())


def _rows(declared: list[Any], store: Any, axes: list[_RowAxis], lanes: int) -> _Rows | None:
    """The function by rows; None if rows are long or the result is not dense."""
    dense = len(store.indices) == len(axes) and all(
        index.same_as(axis.var) and int(size) == axis.extent
        for index, axis, size in zip(store.indices, axes, store.buffer.shape, strict=True)
    )
    if not dense or not axes or axes[-1].extent >= lanes:
        return None
    first = len(axes) - 1
    while first > 1 and prod(axis.extent for axis in axes[first - 1 :]) < lanes:
        first -= 1
    if first < 1:
        return None
    return _Rows(declared, store, axes[: first - 1], axes[first - 1], axes[first:])


def _loops(rows: _Rows, lanes: int, parallel: bool) -> Any:
    """The loops over groups of rows that are whole vectors, and the remaining rows."""
    group = lanes // gcd(lanes, rows.length)
    count, rest = divmod(rows.rows.extent, group)
    if -(-(group + rest) * rows.length // lanes) > _MOST_VECTORS:
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


class _Copies:
    """Unrolled vectors of results, each over several rows."""

    def __init__(self, rows: _Rows, lanes: int) -> None:
        self._rows, self._lanes = rows, lanes
        self._analyzer = sym.Analyzer()
        self.views: dict[Any, Any] = {}

    def of(self, first: Any, count: int) -> Any:
        """The statements of some rows; None where an operand is read in another way."""
        rows, length = self._rows, count * self._rows.length
        own = [rows.rows, *rows.inner]
        outside = _outside_of_loads(rows.store.value)
        if any(axis.var in outside for axis in own):
            return None
        loads = []
        for load in nodes_of(rows.store.value, ir.TensorLoad):
            if any(nodes_of(index, ir.TensorLoad) for index in load.indices):
                return None
            offsets = self._offsets(load, length)
            if offsets is None:
                return None
            start = substitute(self._place(load.source, load.indices), self._start(first))
            loads.append((load, start, offsets))
        statements = []
        for begin in range(0, length, self._lanes):
            found = self._vector(first, loads, begin, min(self._lanes, length - begin))
            if found is None:
                return None
            statements += found
        return tirx.stmt_seq(*statements)

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
        if load.source.strides or str(load.source.dtype) == "bool":
            # LLVM's vectors of truth values are not those in memory
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

    def _vector(self, first: Any, loads: list[Any], begin: int, count: int) -> list[Any] | None:
        """The statements of one vector of results."""
        store, statements, values = self._rows.store, [], []
        lane = ir.Var("lane", self._rows.rows.var.ty)
        for load, start, offsets in loads:
            own = offsets[begin : begin + count]
            low, high = min(own), max(own)
            if max(offsets) - min(offsets) < self._lanes:
                # all vectors of the rows are lanes of one
                low, high = min(offsets), max(offsets)
            view = self._view(load.source)
            if own == list(range(own[0], own[0] + count)):
                values.append((load, tirx.BufferLoad(view, [start + own[0] + lane])))
            elif min(own) == max(own):
                values.append((load, tirx.BufferLoad(view, [start + own[0]])))
            elif high - low >= 2 * self._lanes:
                return None
            else:
                lanes = local_buffer((count,), str(view.dtype), "lanes")
                width = high - low + 1
                vector = tirx.BufferLoad(view, [_ramp(start + low, width)])
                # TVM's shuffle has no more lanes than its operands
                picked = tirx.Shuffle([vector] * -(-count // width), [at - low for at in own])
                statements.append(tirx.AllocBuffer(lanes))
                statements.append(
                    tirx.BufferStore(lanes, picked, [_ramp(tirx.IntImm("int32", 0), count)])
                )
                values.append((load, tirx.BufferLoad(lanes, [lane])))

        def replaced(node: Any) -> Any:
            return next(new for old, new in values if tvm_ffi.structural_equal(old, node))

        value = tvm_ffi.structural_map(store.value, (ir.TensorLoad, replaced))
        place = substitute(self._place(store.buffer, store.indices), self._start(first))
        result = tirx.BufferStore(self._view(store.buffer), value, [place + begin + lane])
        kind = tirx.ForKind.VECTORIZED if count > 1 else tirx.ForKind.SERIAL
        zero, end = (tirx.IntImm(str(lane.ty.dtype), number) for number in (0, count))
        return [*statements, tirx.For(lane, zero, end, kind, result)]

    def _view(self, buffer: Any) -> Any:
        """A buffer as one row."""
        if buffer not in self.views:
            size = prod(int(extent) for extent in buffer.shape)
            row = tirx.decl_buffer(
                [tirx.IntImm(str(self._rows.rows.var.ty.dtype), size)],
                str(buffer.dtype),
                buffer.name,
                scope=buffer.scope(),
                layout=None,
            )
            self.views[buffer] = tirx.DeclBuffer(row, data=buffer.data)
        return self.views[buffer].buffer


def _outside_of_loads(value: Any) -> set[Any]:
    """The variables of an expression outside of the indices of loads."""
    found: set[Any] = set()

    def enter(node: Any) -> Any:
        if isinstance(node, ir.TensorLoad):
            return tvm_ffi.structural.WalkResult.SKIP
        found.add(node)
        return None

    tvm_ffi.structural_walk(value, ((ir.TensorLoad, ir.Var), enter), order="pre")
    return found


def _ramp(first: Any, lanes: int) -> Any:
    return tirx.Ramp(first, tirx.IntImm(str(first.ty.dtype), 1), lanes)
