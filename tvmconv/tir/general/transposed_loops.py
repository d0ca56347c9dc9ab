"""The loops of a copy that transposes, over squares of vectors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import ir, tirx

from tvmconv.tir.annotations import TRANSPOSE
from tvmconv.tir.general.rewrite import item_bytes, nest_of, substitute, uses

# the shortest square is a part of a register; the longest one fits into the registers
_PART, _MOST = 4, 16
# neighbors of the result that two operand lines give alternately
_PAIR = 2
# ratio of the result's line length to the operand's from which squares follow the operand's lines
_LONGER = 4


@dataclass(frozen=True, eq=False)
class _CopyAxis:
    """An axis of the copy."""

    var: Any
    extent: int


@dataclass(frozen=True)
class _Copy:
    """``store[..., read, ..., written] = load[..., written, ..., read]`` over dense buffers."""

    declared: list[Any]
    store: Any
    load: Any
    others: list[_CopyAxis]
    read: _CopyAxis
    written: _CopyAxis


def transposed_loops(func: Any, vector_bytes: int, parallel: bool) -> Any:
    """A function of one spatial block that is a transposing copy, as loops without blocks.

    The function is in block form, with as few axes as it can have. ``parallel`` is whether threads
    share the outermost loop. None where the block is not a copy whose source and result are
    contiguous along two axes.
    """
    copy = _copy(func)
    if copy is None or str(copy.load.source.dtype) == "bool":
        # LLVM's vectors of truth values are not those in memory
        return None
    lanes = vector_bytes // item_bytes(str(copy.load.source.dtype))
    body = _squares(copy, lanes, parallel)
    return None if body is None else func.with_body(tirx.stmt_seq(*copy.declared, body))


def _copy(func: Any) -> _Copy | None:
    *declared, last = tirx.stmt_list(func.body.block.body)
    block = nest_of(last)[1].block
    store = block.body
    if not isinstance(store, tirx.BufferStore) or not isinstance(store.value, ir.TensorLoad):
        return None
    load = store.value
    axes = [_CopyAxis(axis.var, int(axis.dom.extent)) for axis in block.iter_vars]
    read, written = (_last(indices, axes) for indices in (load.indices, store.indices))
    if read is None or written is None or read is written:
        return None
    others = [axis for axis in axes if axis is not read and axis is not written]
    return _Copy(declared, store, load, others, read, written)


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


def _squares(copy: _Copy, lanes: int, parallel: bool) -> Any:
    side = min(lanes, _MOST)
    pairs = copy.written.extent == _PAIR
    while side > (copy.read.extent if pairs else min(copy.read.extent, copy.written.extent)):
        side //= 2
    if side < _PART:
        return None
    repeated = not any(uses(index, copy.written.var) for index in copy.load.indices)
    if repeated and copy.written.extent > lanes:
        # whole vectors repeat one element
        return None
    kind = str(copy.read.var.ty.dtype)
    names = ("row", "tile", "line", "lane")
    row, tile, line, lane = (ir.Var(name, copy.read.var.ty) for name in names)

    def place(axis: _CopyAxis, number: Any, inside: Any) -> Any:
        if axis is copy.written and pairs:
            return inside
        first = number * side
        if axis.extent % side:
            first = tirx.min(first, tirx.IntImm(kind, axis.extent - side))
        return first + inside

    # squares follow the result's lines; lines too long to stay in L1 until the next row do not pay
    rows_axis, tiles_axis = copy.read, copy.written
    if copy.written.extent >= _LONGER * copy.read.extent:
        rows_axis, tiles_axis = tiles_axis, rows_axis
    inside = {copy.read: lane, copy.written: line}
    rows, tiles = (
        1 if pairs and axis is copy.written else -(-axis.extent // side)
        for axis in (rows_axis, tiles_axis)
    )
    outer, number = _outer(copy.others, row, rows)
    values = {
        **outer,
        rows_axis.var: place(rows_axis, number, inside[rows_axis]),
        tiles_axis.var: place(tiles_axis, tile, inside[tiles_axis]),
    }
    body = _loop(lane, side, substitute(copy.store, values), tirx.ForKind.VECTORIZED)
    if pairs:
        # two strided stores in succession, which JoinedStores makes one
        body = _loop(line, _PAIR, body, tirx.ForKind.UNROLLED)
    else:
        body = _loop(line, side, body, annotations={TRANSPOSE: 1})
    body = _loop(tile, tiles, body)
    return _outermost(row, prod(axis.extent for axis in copy.others) * rows, body, parallel)


def _outer(others: list[_CopyAxis], row: Any, inner: int) -> tuple[dict[Any, Any], Any]:
    """Indices of the outer axes and of the inner loop, from the number of an iteration."""
    number = row % inner
    rest = row // inner
    values = {}
    for axis in reversed(others):
        values[axis.var] = rest % axis.extent
        rest = rest // axis.extent
    return values, number


def _loop(var: Any, extent: int, body: Any, kind: Any = None, annotations: Any = None) -> Any:
    kind = tirx.ForKind.SERIAL if kind is None else kind
    first, end = (tirx.IntImm(str(var.ty.dtype), value) for value in (0, extent))
    return tirx.For(var, first, end, kind, body, annotations=annotations)


def _outermost(row: Any, extent: int, body: Any, parallel: bool) -> Any:
    kind = tirx.ForKind.PARALLEL if parallel and extent > 1 else tirx.ForKind.SERIAL
    return _loop(row, extent, body, kind)
