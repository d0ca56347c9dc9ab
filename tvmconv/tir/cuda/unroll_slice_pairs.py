"""Slices of few products, two an iteration: which of two buffers each has is no question then."""

from __future__ import annotations

from typing import Any

from tvmconv.algorithms.cuda.slices import LARGE_BLOCK, PAIRED_ITERATIONS, PAIRED_PRODUCTS
from tvmconv.tir.cuda.loop_terms import slice_products
from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.cuda.threads import block_threads
from tvmconv.tir.general.rewrite import function_pass, substitute, transformed

_PAIR = 2


def Pairs() -> Any:
    """A pass that writes two iterations of a loop over slices as one.

    Pattern: in a kernel a loop of 4 iterations or more, with a barrier, of which one makes 512
    multiply-adds of a thread at most. Not in blocks of 256 threads nor in kernels for tensor cores,
    of which none was compiled with it.

    Rewrite: a loop of half as many iterations, each of two; one that is left over stands behind it.

    Why here: before the places of buffers that take turns become variables. Of slices of 16 of a
    32x64 tile four steps from buffer to buffer, the loop's count, its test and its branch are 1.5 %
    of all instructions; of two such slices the four are constants.
    """
    return function_pass("Pairs", _rewrite)


def _rewrite(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    if has_products(func) or block_threads(func.body) >= LARGE_BLOCK:
        return func
    found = False

    def look(loop: Any) -> Any:
        nonlocal found
        if not 0 < slice_products(loop) <= PAIRED_PRODUCTS or int(loop.extent) < PAIRED_ITERATIONS:
            return loop
        found = True
        return _paired(loop)

    body = tvm_ffi.structural_map(func.body, (tirx.For, look))
    if not found:
        return func
    from tvm import s_tir

    passes = tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify()
    return transformed(func.with_body(body), *passes)


def _paired(loop: Any) -> Any:
    """The loop over pairs, and what is left over."""
    from tvm import ir, tirx

    var, first, count = loop.loop_var, loop.min, int(loop.extent)
    pair = ir.Var(f"{var.name}_pair", var.ty)

    def iteration(number: Any) -> Any:
        return substitute(loop.body, {var: first + number})

    both = [iteration(pair * _PAIR + own) for own in range(_PAIR)]
    zero, pairs = tirx.IntImm("int32", 0), tirx.IntImm("int32", count // _PAIR)
    made = tirx.For(pair, zero, pairs, loop.kind, tirx.SeqStmt(both))
    if count % _PAIR == 0:
        return made
    return tirx.SeqStmt([made, iteration(tirx.IntImm("int32", count - 1))])
