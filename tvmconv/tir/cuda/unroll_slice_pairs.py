"""Unrolls loops over small slices by two, so that buffer parity is a constant."""

from __future__ import annotations

from typing import Any

from tvm import ir, s_tir, tirx

from tvmconv.algorithms.cuda.slices import LARGE_BLOCK, PAIRED_ITERATIONS, PAIRED_PRODUCTS
from tvmconv.tir.cuda.loop_terms import slice_products
from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.cuda.threads import block_threads
from tvmconv.tir.general.rewrite import function_pass, map_nodes, substitute, transformed

_PAIR = 2


def UnrollSlicePairs() -> Any:
    """A pass that unrolls a loop over slices by two.

    Pattern: a loop with a barrier and at least 4 iterations, each of at most 512 MACs a thread.
    Blocks of 256 threads and tensor-core kernels are left out: none was compiled with the pass.

    Rewrite: a loop of half as many iterations, each of two slices. An odd slice follows the loop.

    Why here: before :func:`~tvmconv.tir.cuda.double_buffers.DoubleBuffers`. For slices of 16 of a
    32x64 tile, four toggles of buffers and the loop's counter, test and branch are 1.5 % of all
    instructions. In a pair of slices the four offsets are constants.
    """
    return function_pass("cuda.UnrollSlicePairs", _rewrite)


def _rewrite(func: Any) -> Any:
    if has_products(func) or block_threads(func.body) >= LARGE_BLOCK:
        return func

    def look(loop: Any) -> Any:
        if not 0 < slice_products(loop) <= PAIRED_PRODUCTS or int(loop.extent) < PAIRED_ITERATIONS:
            return loop
        return _paired(loop)

    paired = map_nodes(func, (tirx.For, look))
    if paired is func:
        return func
    return transformed(paired, tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify())


def _paired(loop: Any) -> Any:
    """The loop over pairs of slices, and the odd slice if there is one."""
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
