"""Makes a copy while the first tile reads it."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.annotations import FIRST_USE
from tvmconv.tir.general.rewrite import function_pass, nest_of, nodes_of, rebuilt, substitute, uses


def CopyOnFirstUse() -> Any:
    """A pass that fills a buffer inside the reduction of the first tile that reads it.

    Pattern: a nest of loops, one of them marked, around one store to a buffer. Later in the same
    sequence follow loops over tiles. The reduction of each tile reads the whole buffer, in each
    iteration one element of some dimensions.

    Rewrite: the first tile is peeled. Each iteration of its reduction stores the values that it
    will read, and the nest is removed. A nest that does not fit only loses its annotation.

    Why here: a separate copy waits for its operand, such as weights from memory, and costs a load
    and a store for each vector. During the reduction the ports for loads and stores are idle.
    LLVM forwards the stored value to the load.
    """
    return function_pass("CopyOnFirstUse", _first_use)


def _first_use(func: Any) -> Any:
    if not any(FIRST_USE in loop.annotations for loop in nodes_of(func.body, tirx.For)):
        return func
    body = tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _sequence))

    def plain(loop: Any) -> Any:
        if FIRST_USE not in loop.annotations:
            return loop
        kept = {key: value for key, value in loop.annotations.items() if key != FIRST_USE}
        return rebuilt(loop, annotations=kept)

    return func.with_body(tvm_ffi.structural_map(body, (tirx.For, plain)))


def _sequence(stmt: Any) -> Any:
    parts = list(stmt.seq)
    for place, part in enumerate(parts):
        loops, store = _nest(part)
        if store is None or not any(FIRST_USE in loop.annotations for loop in loops):
            continue
        filled = _filled(parts[place + 1 :], loops, store)
        if filled is not None:
            return tirx.SeqStmt([*parts[:place], *filled])
    return stmt


def _nest(stmt: Any) -> tuple[list[Any], Any]:
    """The loops of a perfect nest around one store, and the store; None for other statements."""
    loops, inner = nest_of(stmt)
    return loops, inner if isinstance(inner, tirx.BufferStore) else None


def _filled(parts: list[Any], loops: list[Any], store: Any) -> list[Any] | None:
    """Statements whose first reader fills the buffer; None if that is not possible."""
    for place, part in enumerate(parts):
        load = _load(part, store.buffer)
        if load is None:
            continue
        found = _first_tile(part, load, loops, store)
        return None if found is None else [*parts[:place], *found, *parts[place + 1 :]]
    return None


def _load(stmt: Any, buffer: Any) -> Any:
    """The first load from a buffer; None without one."""
    loads = nodes_of(stmt, ir.TensorLoad)
    return next((load for load in loads if load.source.same_as(buffer)), None)


def _first_tile(stmt: Any, load: Any, loops: list[Any], store: Any) -> list[Any] | None:
    """The statement with its first tile peeled; that tile fills the buffer."""
    if isinstance(stmt, tirx.SeqStmt):
        return _filled(list(stmt.seq), loops, store)
    if not isinstance(stmt, tirx.For) or int(stmt.kind) != tirx.ForKind.SERIAL:
        return None
    if any(uses(index, stmt.loop_var) for index in load.indices):
        filled = _reduction(stmt, load, loops, store)
        return None if filled is None else [filled]
    body = substitute(stmt.body, {stmt.loop_var: stmt.min})
    first = _first_tile(body, _load(body, store.buffer), loops, store)
    if first is None:
        return None
    others = substitute(stmt.body, {stmt.loop_var: stmt.loop_var + 1})
    return [*first, rebuilt(stmt, extent=stmt.extent - 1, body=others)]


def _reduction(stmt: Any, load: Any, loops: list[Any], store: Any) -> Any:
    """The loops of a reduction, whose iterations first store the values that they read."""
    nest = []
    while isinstance(stmt, tirx.For) and int(stmt.kind) == tirx.ForKind.SERIAL:
        nest.append(stmt)
        stmt = stmt.body
    steps: dict[Any, Any] = {}
    for written, read, extent in zip(store.indices, load.indices, store.buffer.shape, strict=True):
        loop = next((loop for loop in nest if loop.loop_var.same_as(read)), None)
        if loop is None:
            continue
        if int(loop.min) or int(loop.extent) != int(extent):
            return None
        outer = next((copy for copy in loops if copy.loop_var.same_as(written)), None)
        if outer is not None:
            steps[outer.loop_var] = read
    # the reduction must write every element before it reads it
    if len(steps) < len(nest):
        return None
    stored = substitute(store, steps)
    for loop in reversed(loops):
        if not any(loop.loop_var.same_as(var) for var in steps):
            is_vector = int(loop.kind) == tirx.ForKind.VECTORIZED
            kind = tirx.ForKind.VECTORIZED if is_vector else tirx.ForKind.UNROLLED
            stored = rebuilt(loop, body=stored, kind=kind, annotations={})
    body = tirx.SeqStmt([stored, stmt])
    for loop in reversed(nest):
        body = rebuilt(loop, body=body)
    return body
