"""Loops of a reduction written out, where LLVM would not do so."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.halved_loads import HALVED, product_of
from tvmconv.tir.rewrite import function_pass, rebuilt, substitute

# taps in a row that LLVM, too, writes out of other loops
_MOST_TAPS = 15
# sums of the steps of a longer loop that are written out together
_MOST_SUMS = 320
_WRITTEN = "tvmconv.straight"


def StraightSums() -> Any:
    """A pass that writes out loops of sums whose loads :func:`HalvedLoads` halves.

    Pattern: in a function with the attribute :data:`HALVED`, an innermost serial loop of constant
    extent around loops that are written out, and nothing but sums of products of vectors and
    values that are spread.

    Rewrite: a short one is written out, too. Of a longer one some steps are, as many as divide it.

    Why here: LLVM does so by itself, keeps pixels from one tap to the next and loads ahead for the
    next step, but not with loads in halves, for it takes their assembly for calls. ``UnrollLoop``
    comes next.
    """
    return function_pass("StraightSums", _straight)


def _straight(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    if not (func.attrs and HALVED in func.attrs):
        return func

    def look(loop: Any) -> Any:
        if int(loop.kind) != tirx.ForKind.SERIAL or not isinstance(loop.extent, tirx.IntImm):
            return loop
        extent, sums = int(loop.extent), _sums(loop.body)
        if extent <= _MOST_TAPS and sums:
            return _written(loop, extent)
        steps = max((n for n in (4, 3, 2) if extent % n == 0 and n * sums <= _MOST_SUMS), default=1)
        return _stepped(loop, steps) if sums and steps > 1 else loop

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.For, look)))


def _sums(body: Any) -> int:
    """How many sums a body of sums alone makes; 0 for others."""
    from tvm import tirx

    if isinstance(body, tirx.For):
        written = int(body.kind) == tirx.ForKind.UNROLLED and _WRITTEN not in body.annotations
        constant = isinstance(body.extent, tirx.IntImm)
        return int(body.extent) * _sums(body.body) if written and constant else 0
    if isinstance(body, tirx.SeqStmt):
        each = [_sums(statement) for statement in body.seq]
        return sum(each) if all(each) else 0
    return int(product_of(body) is not None)


def _written(loop: Any, extent: int) -> Any:
    from tvm import tirx

    marks = {**loop.annotations, _WRITTEN: extent}
    return rebuilt(loop, kind=tirx.ForKind.UNROLLED, annotations=marks)


def _stepped(loop: Any, steps: int) -> Any:
    """A loop over so many steps at a time."""
    from tvm import ir, tirx

    step = ir.Var("step", loop.loop_var.ty)
    number = tirx.IntImm(str(loop.loop_var.ty.dtype), steps)
    body = substitute(loop.body, {loop.loop_var: loop.loop_var * number + step})
    inner = tirx.For(step, loop.min, number, tirx.ForKind.UNROLLED, body)
    return rebuilt(loop, extent=loop.extent // number, body=inner)
