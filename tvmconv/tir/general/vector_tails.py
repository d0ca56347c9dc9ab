"""A shorter last vector for loops that the vector length does not divide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from tvmconv.tir.annotations import TAIL
from tvmconv.tir.general.conditions import is_select
from tvmconv.tir.general.rewrite import (
    function_pass,
    nodes_of,
    rebuilt,
    replace_marked,
    substitute,
    transformed,
    variables,
)

# LLVM itself divides shorter vectors of any length
_SHORT = 16


def VectorTails() -> Any:
    """A pass that gives the last iteration of a marked loop a vector of the remaining elements.

    Pattern: a loop over whole vectors around vectorized loops, whose elements are tested against
    the end. The mark gives the lanes of a vector, and the remaining elements of the last one.

    Rewrite: the last iteration is peeled, and its vectorized loops are cut to the remaining
    elements. One remaining element becomes a serial loop. Many become vectors of powers of two. If
    the mark allows it, the loops keep their length and begin earlier. The tests are then provable
    and removed.

    Pattern: a vectorized loop whose lanes are tested against a constant, as in the last tile of a
    specialized function. Rewrite: the loop ends at the constant. If the lanes after it are filled
    with a constant, all lanes are filled before.

    Why here: VectorizeLoop serializes a vectorized loop whose lanes are tested, in every iteration
    and not only in the last. LoopPartition skips loops of constant extent. LLVM unrolls the result
    in place of vectorizing it. The code is slow, and takes seconds to compile if the body is a
    polynomial.
    """
    return function_pass("VectorTails", _split_tails)


def _split_tails(func: Any) -> Any:
    def split(loop: Any, sizes: Any) -> Any:
        width, rest, *overlap = (int(size) for size in sizes)
        last = int(loop.extent) - 1
        whole = rebuilt(loop, extent=tirx.IntImm(str(loop.loop_var.ty.dtype), last))
        body = substitute(loop.body, {loop.loop_var: last})
        # a buffer of the iteration has indices that begin at its first element
        moves = overlap and last and not nodes_of(loop.body, tirx.AllocBuffer)
        change = _moved if moves else _first_lanes
        return tirx.SeqStmt([whole, _changed(body, width, rest, change)])

    marked = replace_marked(func, {TAIL: split})
    replaced = marked.with_body(tvm_ffi.structural_map(marked.body, (tirx.For, _ended)))
    if replaced.body.same_as(func.body):
        return func
    return transformed(replaced, tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify())


def _changed(body: Any, width: int, rest: int, change: Callable[[Any, int, Any], Any]) -> Any:
    """The body with its vectorized loops changed for the remaining elements."""

    def changed(loop: Any) -> Any:
        if int(loop.kind) != tirx.ForKind.VECTORIZED or int(loop.extent) != width:
            return loop
        return change(loop, rest, loop.body)

    return tvm_ffi.structural_map(body, (tirx.For, changed))


def _moved(loop: Any, rest: int, body: Any) -> Any:
    """A vectorized loop that ends where its first ``rest`` lanes did."""
    first = loop.loop_var - (int(loop.extent) - rest)
    return rebuilt(loop, body=substitute(body, {loop.loop_var: first}))


def _ended(loop: Any) -> Any:
    """A vectorized loop cut where a test of its lanes fails; others are unchanged."""
    if int(loop.kind) != tirx.ForKind.VECTORIZED:
        return loop
    body = loop.body
    if isinstance(body, tirx.IfThenElse) and body.else_case is None:
        end = _end_of_lanes(body.condition, loop)
        return loop if end is None else _first_lanes(loop, end, body.then_case)
    if isinstance(body, tirx.BufferStore) and _is_selected(body.value):
        condition, value, other = body.value.args
        end = _end_of_lanes(condition, loop)
        if end is None or variables(other):
            return loop
        filled = rebuilt(loop, body=tirx.BufferStore(body.buffer, other, body.indices))
        copied = tirx.BufferStore(body.buffer, value, body.indices)
        return tirx.SeqStmt([filled, _first_lanes(loop, end, copied)])
    return loop


def _is_selected(value: Any) -> bool:
    return isinstance(value, ir.Call) and is_select(value)


def _end_of_lanes(condition: Any, loop: Any) -> int | None:
    """The lane from which a test fails; None for a test of another form."""
    below = isinstance(condition, tirx.LT) and condition.a.same_as(loop.loop_var)
    if not below or not isinstance(condition.b, tirx.IntImm):
        return None
    end = int(condition.b)
    return end if 0 < end < int(loop.extent) else None


def _first_lanes(loop: Any, count: int, body: Any) -> Any:
    """Vectorized loops over the first lanes of a loop."""
    dtype = str(loop.loop_var.ty.dtype)
    loops, first = [], 0
    for lanes in _pieces(count):
        kind = tirx.ForKind.VECTORIZED if lanes > 1 else tirx.ForKind.SERIAL
        moved = substitute(body, {loop.loop_var: loop.loop_var + first}) if first else body
        loops.append(rebuilt(loop, extent=tirx.IntImm(dtype, lanes), kind=kind, body=moved))
        first += lanes
    return tirx.stmt_seq(*loops)


def _pieces(count: int) -> list[int]:
    """Lanes in powers of two, which LLVM keeps in registers, and a short rest."""
    pieces = []
    while count > _SHORT:
        pieces.append(1 << (count.bit_length() - 1))
        count -= pieces[-1]
    return [*pieces, count] if count else pieces
