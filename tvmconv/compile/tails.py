"""The last, shorter vector of a loop."""

from __future__ import annotations

from typing import Any

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
    import tvm_ffi
    from tvm import ir, s_tir, tirx

    found = False

    def split(loop: Any) -> Any:
        nonlocal found
        if TAIL not in loop.annotations:
            return loop
        found = True
        width, rest = (int(value) for value in loop.annotations[TAIL])
        kept = {key: value for key, value in loop.annotations.items() if key != TAIL}
        last = int(loop.extent) - 1
        dtype = str(loop.loop_var.ty.dtype)
        whole = tirx.For(
            loop.loop_var,
            loop.min,
            tirx.IntImm(dtype, last),
            loop.kind,
            loop.body,
            annotations=kept,
        )
        final = tirx.IntImm(dtype, last)
        var = loop.loop_var
        body = tvm_ffi.structural_map(loop.body, (ir.Var, lambda v: final if v.same_as(var) else v))
        return tirx.SeqStmt([whole, _narrowed(body, width, rest)])

    body = tvm_ffi.structural_map(func.body, (tirx.For, split))
    if not found:
        return func
    tidy = ir.transform.Sequential([tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify()])
    return tidy(ir.IRModule({"main": func.with_body(body)}))["main"]


def _narrowed(body: Any, width: int, rest: int) -> Any:
    """The body with its vector loops cut to the remaining elements."""
    import tvm_ffi
    from tvm import tirx

    def cut(loop: Any) -> Any:
        if int(loop.kind) != tirx.ForKind.VECTORIZED or int(loop.extent) != width:
            return loop
        kind = tirx.ForKind.VECTORIZED if rest > 1 else tirx.ForKind.SERIAL
        extent = tirx.IntImm(str(loop.loop_var.ty.dtype), rest)
        return tirx.For(
            loop.loop_var, loop.min, extent, kind, loop.body, annotations=loop.annotations
        )

    return tvm_ffi.structural_map(body, (tirx.For, cut))
