"""Software prefetch of the panels of weights that a GEMM reads one after the other."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.annotations import PANEL, STREAM
from tvmconv.tir.general.rewrite import (
    TO_L1,
    TO_L2,
    function_pass,
    item_bytes,
    nodes_of,
    prefetch,
    rebuilt,
    replace_marked,
    substitute,
    uses,
)

_LINE = 64


def PrefetchStreams() -> Any:
    """A pass that prefetches the vector operand of marked reductions.

    Pattern: a reduction loop marked as a stream, or a loop over tiles marked as users of one panel.
    Inside is a vector load of which each iteration of the reduction reads one contiguous piece.

    Rewrite: each iteration of a stream prefetches the cache lines of its piece at the marked
    distance. If the loop variable is part of an index, it prefetches the bytes that follow the
    loaded vector, where the next tile begins. If several tiles use a panel, each iteration of a
    tile's reduction prefetches the tile's share of the next panel. Prefetches beyond the operand's
    end never fault. Loops that do not fit only lose their annotation.

    Why here: a GEMM with few rows uses each weight a few times only, so it is bound by the
    bandwidth of the weights. Hardware prefetchers stop at every page, and neither TVM nor LLVM
    inserts prefetches on x86. Sharing the next panel among the tiles keeps memory busy all the
    time, not only while the first tile waits.
    """
    return function_pass("PrefetchStreams", _prefetch_streams)


def _prefetch_streams(func: Any) -> Any:
    return replace_marked(func, {STREAM: _lines, PANEL: _share})


def _with_hints(loop: Any, hints: list[Any]) -> Any:
    """The loop with statements before its body."""
    return rebuilt(loop, body=tirx.SeqStmt([*hints, loop.body]))


def _inner(loop: Any) -> list[Any]:
    """The loops inside a loop, inner loops first."""
    return nodes_of(loop.body, tirx.For)


def _operand(loop: Any) -> Any:
    """The load of which an iteration of a loop reads one contiguous piece; None if there is none.

    It is a vector load from a read-only buffer, and the loop variable is one of its indices.
    """
    stored = [store.buffer for store in nodes_of(loop.body, tirx.BufferStore)]
    vectors = [n.loop_var for n in _inner(loop) if int(n.kind) == tirx.ForKind.VECTORIZED]
    for load in nodes_of(loop.body, ir.expr.TensorLoad):
        written = any(load.source.same_as(buffer) for buffer in stored)
        # the elements of a dword are the last dimension, after the lanes
        lanes = load.indices[-1:] if _varies(load.indices[-1]) else load.indices[-2:-1]
        if written or not any(uses(index, var) for index in lanes for var in vectors):
            continue
        if sum(index.same_as(loop.loop_var) for index in load.indices) == 1:
            return load
    return None


def _varies(index: Any) -> bool:
    return not isinstance(index, tirx.IntImm)


def _piece(load: Any, loop: Any) -> tuple[int, int]:
    """The dimension that the loop variable indexes, and the elements of one index of it."""
    dimension = next(d for d, i in enumerate(load.indices) if i.same_as(loop.loop_var))
    return dimension, prod(int(extent) for extent in load.source.shape[dimension + 1 :])


def _start(load: Any, loops: list[Any]) -> Any:
    """The load in the first iteration of some loops."""
    return substitute(load, {loop.loop_var: 0 for loop in loops})


def _ahead(start: Any, offset: Any, locality: int) -> Any:
    """The prefetch of the address ``offset`` elements after the address of a load."""
    indices = [*start.indices[:-1], start.indices[-1] + offset]
    return prefetch(tirx.BufferLoad(start.source, indices), locality)


def _lines(loop: Any, distance: Any) -> Any:
    """A loop that prefetches each iteration's piece ``distance`` bytes ahead."""
    load = _operand(loop)
    if load is None:
        hints = _next_piece(loop, int(distance))
        return _with_hints(loop, hints) if hints else loop
    _, values = _piece(load, loop)
    start = _start(load, _inner(loop))
    size = item_bytes(str(load.source.dtype))
    lines = range(0, size * values, _LINE)
    return _with_hints(loop, [_ahead(start, (int(distance) + n) // size, TO_L1) for n in lines])


def _next_piece(loop: Any, size: int) -> list[Any]:
    """Prefetches of the bytes after the vector of ``size`` bytes that an iteration loads."""
    inner = _inner(loop)
    vectors = [n.loop_var for n in inner if int(n.kind) == tirx.ForKind.VECTORIZED]
    found = [
        load
        for load in nodes_of(loop.body, ir.TensorLoad)
        if uses(load.indices[-1], loop.loop_var)
        and any(uses(load.indices[-1], var) for var in vectors)
    ]
    if not found:
        return []
    item = item_bytes(str(found[0].source.dtype))
    # the bytes need not begin with a cache line
    places = [*range(0, size, _LINE), size - 1]
    # L1 holds the tile itself
    return [_ahead(_start(found[0], inner), (size + n) // item, TO_L2) for n in places]


def _place(shape: list[int], indices: Any, first: int) -> tuple[int, Any]:
    """Steps of a panel whose dimensions begin at ``first``, and the step at these indices."""
    position, steps = 0, 1
    for extent, index in zip(shape[first:], indices, strict=False):
        position, steps = position * extent + index, steps * extent
    return steps, position


def _share(loop: Any, _value: Any) -> Any:
    """A loop over tiles, each prefetching its share of the next panel."""
    reduction = [n for n in reversed(_inner(loop)) if int(n.kind) == tirx.ForKind.SERIAL]
    load = _operand(reduction[-1]) if reduction else None
    if load is None:
        return loop
    last, (dimension, values) = reduction[-1], _piece(load, reduction[-1])
    shape = [int(extent) for extent in load.source.shape]
    share = -(-values // int(loop.extent))
    if all(isinstance(nest.extent, tirx.IntImm) for nest in reduction):
        first = dimension + 1 - len(reduction)
        if [int(nest.extent) for nest in reduction] != shape[max(first, 0) : dimension + 1]:
            return loop
        steps, position = _place(shape, [nest.loop_var for nest in reduction], first)
        place = (loop.loop_var * steps + position) * share
    else:
        # the next panel is also read in part: prefetch a share of each step that runs
        used = [any(uses(i, nest.loop_var) for nest in reduction) for i in load.indices]
        first = used.index(True)
        steps, position = _place(shape, load.indices[first : dimension + 1], first)
        place = position * values + loop.loop_var * share
    start, size = _start(load, _inner(loop)), item_bytes(str(load.source.dtype))
    # a share may exceed a cache line
    lines = range(0, share * size, _LINE)
    hints = [_ahead(start, steps * values + place + n // size, TO_L2) for n in lines]

    def look(nest: Any) -> Any:
        return _with_hints(nest, hints) if nest.loop_var.same_as(last.loop_var) else nest

    return rebuilt(loop, body=tvm_ffi.structural_map(loop.body, (tirx.For, look)))
