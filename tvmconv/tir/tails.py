"""The last, shorter vector of a loop."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.rewrite import rebuilt, replace_marked, substitute

# annotation that schedules put on the loop over whole vectors
TAIL = "tvmconv.tail"


def split_tails(func: Any) -> Any:
    """Give the last iteration of each marked loop a vector of just the remaining elements.

    A schedule that splits a loop by a vector's width which does not divide it leaves a test of
    every element. TVM's LoopPartition moves it into a last, scalar iteration, which LLVM then
    unrolls: slow code, and seconds of compile time where the body is a polynomial.

    Parameters
    ----------
    func
        ``tirx.PrimFunc`` without blocks.
    """
    from tvm import ir, s_tir, tirx

    def split(loop: Any, sizes: Any) -> Any:
        width, rest = (int(size) for size in sizes)
        last = int(loop.extent) - 1
        whole = rebuilt(loop, extent=tirx.IntImm(str(loop.loop_var.ty.dtype), last))
        body = substitute(loop.body, {loop.loop_var: last})
        return tirx.SeqStmt([whole, _narrowed(body, width, rest)])

    replaced = replace_marked(func, {TAIL: split})
    if replaced is func:
        return func
    tidy = ir.transform.Sequential([tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify()])
    return tidy(ir.IRModule({"main": replaced}))["main"]


def _narrowed(body: Any, width: int, rest: int) -> Any:
    """The body with its vector loops cut to the remaining elements."""
    import tvm_ffi
    from tvm import tirx

    def cut(loop: Any) -> Any:
        if int(loop.kind) != tirx.ForKind.VECTORIZED or int(loop.extent) != width:
            return loop
        kind = tirx.ForKind.VECTORIZED if rest > 1 else tirx.ForKind.SERIAL
        extent = tirx.IntImm(str(loop.loop_var.ty.dtype), rest)
        return rebuilt(loop, extent=extent, kind=kind)

    return tvm_ffi.structural_map(body, (tirx.For, cut))
