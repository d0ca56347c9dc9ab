"""Vectorizes loops over spatial positions by scalable vectors, a 128-bit segment per position."""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm_ffi
from tvm import ir, sym, tirx

from tvmconv.tir.annotations import SEGMENTS
from tvmconv.tir.general.record_vector_code import NO_SCALABLE_FORM
from tvmconv.tir.general.rewrite import function_pass, local_buffer, replace_marked, uses
from tvmconv.tir.general.stack_buffers import on_stack
from tvmconv.tir.sve.expressions import Pixels
from tvmconv.tir.sve.forward_zeros import forwarded
from tvmconv.tir.sve.horizontal_sums import folded, is_fold
from tvmconv.tir.sve.interleaved_panels import Panels, PanelUse, panels_of
from tvmconv.tir.sve.vectors import BYTES, INTEGERS, NoScalableForm, is_bytes, number, scalable

# segments of each vector from which on a loop has separate code for its last tile
_LONG = 8


def VectorizePixels() -> Any:
    """A pass that computes as many neighboring positions at once as vectors hold.

    Pattern: a loop over positions, marked with a number of vectors, that is unrolled and vectorized
    inside. Its statements compute the four channels of a block of one position. They depend on the
    position by their addresses, one block apart, and by tests of these addresses. Values of one
    position are in buffers of their own. Other loops are unchanged.

    Rewrite: each iteration computes that many vectors of ``vscale`` positions. Predicates mask the
    last positions and failed tests; masked lanes read zero. Long loops without a reduction have the
    last tile as separate code, and no mask before it. Values common to all positions are
    repeated in every segment (``ld1rq``). A channel that multiplies a vector is a lane of each
    segment (``fmla z, z, z.s[r]``). A loop that only sums segments, or keeps their maxima,
    accumulates vectors and reduces their segments at the end.

    Why here: a segment computes what a NEON register computes, so that schedules are shared with
    NEON. TVM's passes on blocks, loops and storage reject strides of unknown size. Channel indices
    are constants at this stage.
    """
    return function_pass("sve.VectorizePixels", _segments)


def _segments(func: Any) -> Any:
    loops = _marked(func)
    if not loops:
        return func
    rewritten, whole = _rewritten(func, loops, interleave=True)
    return rewritten if whole else _rewritten(func, loops, interleave=False)[0]


def _rewritten(func: Any, loops: list[tuple[Any, int, int]], interleave: bool) -> tuple[Any, bool]:
    """The function, and whether all accesses to its panels use interleaved panels."""
    allocated = _accesses(func.body, allocations=True)
    analyzer = sym.Analyzer()
    refused = []
    use = PanelUse(_accesses(func.body))
    for loop, vectors, steps in loops:
        use.add(panels_of(loop, vectors, steps, analyzer))

    def rewrite(loop: Any, marks: Any) -> Any:
        vectors, steps = (int(value) for value in marks)
        if steps and not interleave:
            return loop
        inside = _accesses(loop.body)
        private = {
            buffer
            for buffer, count in inside.items()
            if buffer in allocated and (buffer.scope() == "local" or count == allocated[buffer])
        }
        private -= _by_pixel(loop)
        panels = use.of(vectors, steps)
        try:
            tiles = _loop(loop, vectors, private, analyzer, panels)
        except NoScalableForm as reason:
            refused.append(str(reason))
            # NEON code, one position at a time
            panels = panels_of(loop, vectors, steps, analyzer)
            tiles = panels.by_segment(loop, analyzer) if panels.buffers else loop
        use.count(panels, inside)
        return tiles

    rewritten = replace_marked(func, {SEGMENTS: rewrite})
    if refused:
        rewritten = rewritten.with_attr(NO_SCALABLE_FORM, refused[0])
    return rewritten, use.whole


def _marked(func: Any) -> list[tuple[Any, int, int]]:
    """The marked loops, with the values of their marks."""
    found = []

    def look(loop: Any) -> None:
        if SEGMENTS in loop.annotations:
            vectors, steps = loop.annotations[SEGMENTS]
            found.append((loop, int(vectors), int(steps)))

    tvm_ffi.structural_walk(func.body, (tirx.For, look))
    return found


def _accesses(stmt: Any, allocations: bool = False) -> dict[Any, int]:
    """The number of accesses to buffers; with ``allocations``, only buffers allocated there."""
    found: Counter[Any] = Counter()
    owned: set[Any] = set()

    def look(node: Any) -> None:
        if isinstance(node, tirx.AllocBuffer):
            owned.add(node.buffer)
        else:
            found[node.buffer if isinstance(node, tirx.BufferStore) else node.source] += 1

    kinds = (tirx.AllocBuffer, tirx.BufferStore, ir.expr.TensorLoad)
    tvm_ffi.structural_walk(stmt, (kinds, look))
    return {b: n for b, n in found.items() if b in owned or not allocations}


def _loop(loop: Any, vectors: int, private: set[Any], analyzer: Any, panels: Panels) -> Any:
    count = int(loop.extent)
    pixels = vectors * tirx.vscale()
    tiles = tirx.floordiv(number(count) + pixels - 1, pixels)
    places = _places(loop.body, private, analyzer)

    def made(tile: Any, limit: int | None) -> tuple[list[Pixels], list[Any]]:
        """The vectors of a tile, and the allocations of their private buffers."""
        groups = list[Pixels]()
        allocations = list[Any]()
        for vector in range(vectors):
            own: dict[Any, dict[int, Any]] = {}
            for buffer, used in places.items():
                named = {p: f"{buffer.name}_{p}_{vector}" for p in sorted(used)}
                kind = scalable(buffer.dtype)
                own[buffer] = {p: local_buffer((1,), kind, name) for p, name in named.items()}
                allocations += map(on_stack, own[buffer].values())
            first = tile * pixels + vector * tirx.vscale()
            place = (tile, vector * tirx.vscale())
            groups.append(Pixels(loop.loop_var, first, limit, analyzer, own, panels, place))
        return groups, allocations

    def repeated(begin: Any, end: Any, limit: int | None) -> Any:
        """The tiles of a range, whose lanes exist up to a limit of positions."""
        tile = ir.Var("tile", loop.loop_var.ty)
        # without an addition of zero, so that indices stay simple
        index = tile if begin is None else begin + tile
        groups, allocations = made(index, limit)
        if is_fold(loop) and loop.body.buffer not in private:
            return folded(
                loop, groups, lambda body: tirx.For(tile, number(0), end, loop.kind, body)
            )
        body = _statement(loop.body, groups, ())
        body = tirx.SeqStmt([*allocations, body]) if allocations else body
        extent = end if begin is None else end - begin
        return tirx.For(tile, number(0), extent, loop.kind, body)

    if not _splits(loop, vectors):
        return repeated(None, tiles, count)
    whole = tirx.truncdiv(number(count), pixels)
    return tirx.SeqStmt([repeated(None, whole, None), repeated(whole, tiles, count)])


def _splits(loop: Any, vectors: int) -> bool:
    """Whether the last tile is separate code, so that others need no ``whilelt`` for each vector.

    That is for long loops of few instructions. A reduction hides the masks of its tile.
    """
    inner = list[Any]()
    tvm_ffi.structural_walk(loop.body, (tirx.For, inner.append))
    if inner or loop.kind != tirx.ForKind.SERIAL or is_fold(loop):
        return False
    return int(loop.extent) >= _LONG * vectors


def _by_pixel(loop: Any) -> set[Any]:
    """Buffers that hold values of several positions."""
    found = set()

    def look(store: Any) -> None:
        if uses(store.indices[0], loop.loop_var):
            found.add(store.buffer)

    tvm_ffi.structural_walk(loop.body, (tirx.BufferStore, look))
    return found


def _places(body: Any, private: set[Any], analyzer: Any) -> dict[Any, set[int]]:
    """The elements of private buffers that are stored to; each becomes a vector."""
    found: dict[Any, set[int]] = {}

    def look(store: Any) -> None:
        if store.buffer in private:
            (index,) = store.indices
            first = analyzer.simplify(index.base if isinstance(index, tirx.Ramp) else index)
            if not isinstance(first, tirx.IntImm):
                raise NoScalableForm(f"the index {first} of {store.buffer.name}")
            found.setdefault(store.buffer, set()).add(int(first))

    tvm_ffi.structural_walk(body, (tirx.BufferStore, look))
    return found


def _statement(stmt: Any, groups: list[Pixels], tests: tuple[Any, ...]) -> Any:
    """A statement for all vectors of a tile, under conditions on each position."""

    def inside(body: Any, *more: Any) -> Any:
        return _statement(body, groups, (*tests, *more))

    if isinstance(stmt, tirx.SeqStmt):
        kept = [part for part in stmt.seq if not isinstance(part, tirx.AllocBuffer)]
        parts = [inside(part) for part in forwarded(kept)]
        return tirx.stmt_seq(*parts)
    if isinstance(stmt, tirx.For):
        return tirx.For(
            stmt.loop_var,
            stmt.min,
            stmt.extent,
            stmt.kind,
            inside(stmt.body),
            None,
            dict(stmt.annotations),
        )
    if isinstance(stmt, tirx.IfThenElse):
        if not uses(stmt.condition, groups[0].pixel):
            other = inside(stmt.else_case) if stmt.else_case is not None else None
            return tirx.IfThenElse(stmt.condition, inside(stmt.then_case), other)
        if stmt.else_case is None:
            return inside(stmt.then_case, stmt.condition)
    if isinstance(stmt, tirx.BufferStore):
        stores = [_store(stmt, group, tests) for group in groups]
        return tirx.stmt_seq(*stores)
    raise NoScalableForm(f"{type(stmt).__name__} in a loop over positions")


def _store(stmt: Any, group: Pixels, tests: tuple[Any, ...]) -> Any:
    (index,) = stmt.indices
    value = group.value(stmt.value, tests)
    if stmt.buffer in group.private:
        target = group.own(stmt.buffer, index)
        if tests:
            value = tirx.Select(group.mask(tests), value, tirx.BufferLoad(target, [number(0)]))
        return tirx.BufferStore(target, value, [number(0)])
    if is_bytes(stmt.buffer.dtype):
        if str(value.ty.dtype) != BYTES:
            raise NoScalableForm(f"{value.ty.dtype} of {stmt.buffer.name}")
        # masks count dwords
        value = tirx.reinterpret(INTEGERS, value)
    name, address = "llvm.aarch64.sve.st1", group.address(stmt.buffer, index)
    return tirx.Evaluate(tirx.call_llvm_intrin("void", name, value, group.mask(tests), address))
