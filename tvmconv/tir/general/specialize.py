"""Specializes border tiles, skips taps outside the image, and splits accumulator buffers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import prod
from typing import Any

from tvm import ir, s_tir, tirx

from tvmconv.tir.annotations import INTERIOR, PARALLEL, PREFETCH, TAPS, consumed_by
from tvmconv.tir.general.conditions import select_zero
from tvmconv.tir.general.loop_cuts import cuts, interior, long_rows, uniform_cuts
from tvmconv.tir.general.prefetch_tiles import prefetches
from tvmconv.tir.general.register_buffers import cut_buffer, drop_decided
from tvmconv.tir.general.rewrite import function_pass, nodes_of, rebuilt, substitute, transformed
from tvmconv.tir.general.scope import Scope, fresh, is_unrolled, open_conditions, variables
from tvmconv.tir.general.taps import bounds_of, distinct, same_taps, varying_taps

_ANNOTATIONS = consumed_by("tvmconv.Specialize")


def Specialize() -> Any:
    """A pass that makes border tiles separate code, so that the interior has no predicates.

    Pattern: loops without blocks that carry one of the annotations ``cases``, ``interior``,
    ``taps``, ``parallel`` and ``prefetch`` of :mod:`tvmconv.tir.annotations`. Functions without
    them are unchanged.

    Rewrite:

    1. A predicate that does not depend on tile loops is tested once per row of taps, around the
       loops over that row. The annotation may ask for bounds of the loop over rows instead. Neither
       applies if padding holds other values than zero.
    2. The first and last iterations of tile loops become separate copies, with a constant tile
       index. The interior copy needs no predicates. In border copies, loops over taps are cut
       where that decides their predicates, so that taps outside the image disappear.
       A long row of taps gets bounds instead, if there would be too many copies.
    3. Outer loops are fused into one parallel loop that branches to the copy for its tile.
    4. An accumulator buffer is split into pieces below TVM's limit for stack buffers.
    5. Innermost reductions prefetch the next inputs and weights.
    6. Marked inner loops are guarded by one test of the first outer loop that decides their
       predicates. In its interior they have none.

    Smaller last tiles are handled in the same way.

    Why here: a padded convolution reads its input under predicates such as ``0 <= h + r - pad``. In
    the reduction loop they cost more than the guarded multiplication. LoopPartition cuts neither
    along several dimensions, nor unrolled and vectorized tiles. LLVM does not hoist a predicate
    that depends on several loops of a tile. A larger accumulator would come from the workspace
    allocator, and its values would be written to memory after every inner loop.
    """
    return function_pass("Specialize", _specialize)


def _specialize(func: Any) -> Any:
    loops = nodes_of(func.body, tirx.For)
    if not any(key in _ANNOTATIONS for loop in loops for key in loop.annotations):
        return func
    low = s_tir.transform
    return transformed(
        func.with_body(_visit(func.body, Scope())),
        low.CanonicalizeLoop(),  # copies start at any iteration
        low.CompactBufferAllocation(),  # and may use a part of their buffers
        low.StmtSimplify(),
        low.LowerOpaqueBlock(),  # removes loops of one iteration
    )


def _visit(stmt: Any, scope: Scope) -> Any:
    """The specialized statement; None if nothing is left of it."""
    if isinstance(stmt, tirx.SeqStmt):
        return _sequence(stmt, scope)
    if isinstance(stmt, tirx.For):
        if PARALLEL in stmt.annotations:
            return _parallel(stmt, scope)
        scope = scope.around(stmt)
        return _taps(stmt, scope) if TAPS in stmt.annotations else _loop(stmt, scope)
    if isinstance(stmt, tirx.IfThenElse):
        return _branch(stmt, scope)
    return drop_decided(stmt, scope)


def _branch(stmt: Any, scope: Scope) -> Any:
    undecided = scope.undecided(stmt.condition)
    other = _visit(stmt.else_case, scope) if stmt.else_case is not None else None
    if undecided is None:
        return other
    body = _visit(stmt.then_case, scope)
    if not undecided or (body is None and other is None):
        return body
    return tirx.IfThenElse(tirx.all(*undecided), body or tirx.Evaluate(0), other)


def _sequence(stmt: Any, scope: Scope) -> Any:
    parts = []
    for part in stmt.seq:
        if isinstance(part, tirx.AllocBuffer):
            pieces, dimension, loops = cut_buffer(part.buffer, stmt)
            scope = scope.holding(part.buffer, pieces, dimension, loops)
            parts += [tirx.AllocBuffer(piece, part.annotations) for piece in pieces]
        else:
            parts.append(_visit(part, scope))
    return _join(parts)


def _loop(loop: Any, scope: Scope) -> Any:
    """A serial or tile loop: an unrolled loop is unrolled, a marked loop is cut."""
    var = loop.loop_var
    if INTERIOR in loop.annotations and (found := _interior(loop, scope)) is not None:
        return found
    annotations = {key: value for key, value in loop.annotations.items() if key not in _ANNOTATIONS}
    ranges = uniform_cuts(loop, scope) if is_unrolled(loop) else cuts(loop, scope)
    parts = []
    for begin, end in ranges:
        if end - begin == 1:
            parts.append(_visit(loop.body, scope.fixing(var, begin)))
            continue
        inner = fresh(var)
        within = scope.inside(var, inner, begin, end)
        ahead = []
        if PREFETCH in loop.annotations:
            inputs, weights = (bool(int(flag)) for flag in loop.annotations[PREFETCH])
            inputs = inputs and within.first_column
            ahead = prefetches(loop, within, inputs=inputs, weights=weights)
            ahead = [drop_decided(hint, within) for hint in ahead]
        body = _join([*ahead, _visit(loop.body, within)])
        parts.append(_for(inner, begin, end, loop.kind, body, annotations))
    return _join(parts)


def _interior(loop: Any, scope: Scope) -> Any:
    """A marked loop guarded by a test of an outer loop; None if no outer loop decides anything."""
    if (found := interior(loop, scope)) is None:
        return None
    var, begin, end = found
    kept = {key: value for key, value in loop.annotations.items() if key != INTERIOR}
    loop = rebuilt(loop, annotations=kept)
    test = tirx.all(begin <= var, var < end)
    return tirx.IfThenElse(test, _loop(loop, scope.within(var, begin, end)), _loop(loop, scope))


def _taps(loop: Any, scope: Scope) -> Any:
    """A loop over kernel rows or columns: skip taps outside, cut where that decides predicates."""

    extent = int(loop.extent)
    if extent == 1:
        return _visit(loop.body, scope.fixing(loop.loop_var, 0))
    inner = fresh(loop.loop_var)
    within = scope.inside(loop.loop_var, inner, 0, extent)
    found = list(open_conditions(loop.body, within))
    # rows of padding contribute if padding is not zero
    skips = select_zero(loop.body)
    guards = [condition for condition, _ in found if skips and within.defines(condition)]
    for condition, constants in found:
        names = variables(condition)
        fixed = all(any(v.same_as(c) for c in (*constants, inner)) for v in names)
        if fixed and not within.defines(condition) and any(v.same_as(inner) for v in names):
            return _join([_tap_range(loop, scope, *ends) for ends in same_taps(loop, scope)])
    if skips and found and not guards and any(loop.same_as(row) for row in long_rows(loop)):
        ranges = varying_taps(loop, found, inner, within)
        if ranges is not None:
            tile = tuple(v for condition, _ in found for v in variables(condition))
            scope = replace(scope, written_out=(*scope.written_out, *tile))
            return _varying(loop, scope, *ranges, inner)
    return _tap_range(loop, scope, 0, extent, distinct(guards), inner)


def _varying(loop: Any, scope: Scope, ends: Any, inside: Any, name: Any) -> Any:
    """Taps before, in and after a range in which the conditions ``inside`` on ``name`` hold."""
    extent, parts = int(loop.extent), []
    for number, (begin, end) in enumerate(pairwise(ends)):
        inner = fresh(name)
        within = scope.inside(loop.loop_var, inner, 0, extent)
        if number == 1:
            within = within.given(*(substitute(condition, {name: inner}) for condition in inside))
        parts.append(_for(inner, begin, end, loop.kind, _visit(loop.body, within), {}))
    return _join(parts)


def _tap_range(
    loop: Any, scope: Scope, begin: int, end: int, guards: Any = (), inner: Any = None
) -> Any:
    """Some iterations of a loop over taps; the guards are over ``inner``."""
    columns = str(loop.annotations[TAPS]) == "columns"
    if columns and begin == 0 and end > 1 and not guards and _fetches_input(loop):
        # neighboring columns read the same lines: the first one prefetches for all
        return _join([_tap_range(loop, scope, 0, 1), _tap_range(loop, scope, 1, end)])
    if columns and begin > 0:
        scope = replace(scope, first_column=False)
    if end - begin == 1:
        return _visit(loop.body, scope.fixing(loop.loop_var, begin))
    inner = fresh(loop.loop_var) if inner is None else inner
    within = scope.inside(loop.loop_var, inner, begin, end)
    body = _visit(loop.body, within.given(*guards))
    if body is None:
        return None
    if guards and str(loop.annotations[TAPS]) == "range":
        bounds, guards = bounds_of(guards, inner, begin, end)
        begin, end = (within.analyzer.simplify(bound) for bound in bounds)
    if guards:
        body = tirx.IfThenElse(tirx.all(*guards), body, None)
    return _for(inner, begin, end, loop.kind, body, {})


def _fetches_input(loop: Any) -> bool:
    """Whether an inner loop prefetches the input."""
    marks = [nest.annotations.get(PREFETCH, ()) for nest in nodes_of(loop.body, tirx.For)]
    return any(int(flag) for mark in marks for flag in list(mark)[:1])


def _parallel(loop: Any, scope: Scope) -> Any:
    """Fuse a nest of marked loops; inside, branch to the copy for the iteration."""
    chain = [loop]
    while isinstance(chain[-1].body, tirx.For) and PARALLEL in chain[-1].body.annotations:
        chain.append(chain[-1].body)
    names = [fresh(nest.loop_var) for nest in chain]

    def choose(level: int, scope: Scope) -> Any:
        if level == len(chain):
            return _visit(chain[-1].body, scope)
        scope = scope.around(chain[level])
        nest, inner = chain[level], names[level]
        cases = []
        for begin, end in cuts(nest, scope):
            known = scope.inside(nest.loop_var, inner, begin, end)
            if end - begin == 1:
                known = scope.fixing(nest.loop_var, begin)
            cases.append((end, choose(level + 1, known)))
        _, result = cases.pop()
        for end, body in reversed(cases):
            result = tirx.IfThenElse(inner < end, body, result)
        return result

    body = choose(0, scope)
    total = prod(int(nest.extent) for nest in chain)
    fused = ir.Var("tile", loop.loop_var.ty)
    place, rest = {}, fused
    for nest, inner in zip(reversed(chain), reversed(names), strict=True):
        extent = int(nest.extent)
        place[inner] = rest if nest is loop else rest % extent
        rest = rest // extent
    body = substitute(body, place)
    kind = tirx.ForKind.PARALLEL if total > 1 else tirx.ForKind.SERIAL
    return _for(fused, 0, total, kind, body, {})


def _for(var: Any, begin: int, end: int, kind: Any, body: Any, annotations: Any) -> Any:
    if body is None:
        return None
    return tirx.For(var, begin, end - begin, kind, body, annotations=annotations)


def _join(parts: list[Any]) -> Any:
    parts = [part for part in parts if part is not None]
    if len(parts) < 2:
        return parts[0] if parts else None
    return tirx.SeqStmt(parts)
