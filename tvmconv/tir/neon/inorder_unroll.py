"""Unrolls loops of a reduction that LLVM would not unroll."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tvmconv.tir.general.rewrite import function_pass, map_nodes, rebuilt, substitute, transformed
from tvmconv.tir.neon.inorder_half_loads import chain_of, loads_of

# most taps of a row; LLVM also unrolls other loops of this length
_MOST_TAPS = 15
# most FMAs of the unrolled steps of a longer loop. With a given order of instructions, loads of the
# next steps cannot start before the end of these
_MOST_SUMS, _MOST_ORDERED = 320, 680


def InorderUnroll(ordered: bool) -> Any:
    """A pass that unrolls loops of accumulations whose loads :func:`InorderHalfLoads` splits.

    Pattern: a serial loop of constant extent that contains only such accumulations.

    Rewrite: a short loop is unrolled. A longer loop is unrolled by a factor that divides it.

    Why here: LLVM unrolls by itself, keeps data from one tap to the next and loads ahead for the
    next step. It does not do so with split loads, because it treats their assembly as calls.
    """
    return function_pass("neon.InorderUnroll", lambda func: _unrolled(func, ordered))


def _unrolled(func: Any, ordered: bool) -> Any:
    most, counts = (_MOST_ORDERED, (8, 4, 3, 2)) if ordered else (_MOST_SUMS, (4, 3, 2))

    def look(loop: Any) -> Any:
        if int(loop.kind) != tirx.ForKind.SERIAL or not isinstance(loop.extent, tirx.IntImm):
            return loop
        extent, sums = int(loop.extent), _sums(loop.body, ordered)
        steps = max((n for n in counts if extent % n == 0 and n * sums <= most), default=1)
        if not sums or (extent > _MOST_TAPS and steps == 1):
            return loop
        if extent <= _MOST_TAPS:
            return rebuilt(loop, kind=tirx.ForKind.UNROLLED)
        return _stepped(loop, steps)

    unrolled = map_nodes(func, (tirx.For, look))
    passes = tirx.transform.UnrollLoop(), tirx.transform.StmtSimplify()
    return func if unrolled is func else transformed(unrolled, *passes)


def _sums(body: Any, ordered: bool) -> int:
    """The number of accumulations of a body that contains nothing else; otherwise 0."""
    if not isinstance(body, tirx.SeqStmt) or not all(loads_of(stmt) for stmt in body.seq):
        return 0
    return len(body.seq) if chain_of(list(body.seq), ordered) is not None else 0


def _stepped(loop: Any, steps: int) -> Any:
    """A loop unrolled by so many steps."""
    step = ir.Var("step", loop.loop_var.ty)
    number = tirx.IntImm(str(loop.loop_var.ty.dtype), steps)
    body = substitute(loop.body, {loop.loop_var: loop.loop_var * number + step})
    inner = tirx.For(step, loop.min, number, tirx.ForKind.UNROLLED, body)
    return rebuilt(loop, extent=loop.extent // number, body=inner)
