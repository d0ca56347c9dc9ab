"""A shorter last vector for loops that the vector length does not divide."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import s_tir, tirx

from tvmconv.tir.annotations import TAIL
from tvmconv.tir.general.rewrite import (
    function_pass,
    rebuilt,
    replace_marked,
    substitute,
    transformed,
)


def VectorTails() -> Any:
    """A pass that gives the last iteration of a marked loop a vector of the remaining elements.

    Pattern: a loop over whole vectors around vectorized loops, whose elements are tested against
    the end. The mark gives the lanes of a vector, and the remaining elements of the last one.

    Rewrite: the last iteration is peeled, and its vectorized loops are cut to the remaining
    elements. One remaining element becomes a serial loop. The tests are then provable and removed.

    Pattern: a vectorized loop whose lanes are tested against a constant, as in the last tile of a
    specialized function. Rewrite: the loop ends at the constant.

    Why here: VectorizeLoop serializes a vectorized loop whose lanes are tested, in every iteration
    and not only in the last. LoopPartition skips loops of constant extent. LLVM unrolls the result
    in place of vectorizing it. The code is slow, and takes seconds to compile if the body is a
    polynomial.
    """
    return function_pass("VectorTails", _split_tails)


def _split_tails(func: Any) -> Any:
    def split(loop: Any, sizes: Any) -> Any:
        width, rest = (int(size) for size in sizes)
        last = int(loop.extent) - 1
        whole = rebuilt(loop, extent=tirx.IntImm(str(loop.loop_var.ty.dtype), last))
        body = substitute(loop.body, {loop.loop_var: last})
        return tirx.SeqStmt([whole, _narrowed(body, width, rest)])

    marked = replace_marked(func, {TAIL: split})
    replaced = marked.with_body(tvm_ffi.structural_map(marked.body, (tirx.For, _ended)))
    if replaced.body.same_as(func.body):
        return func
    return transformed(replaced, tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify())


def _narrowed(body: Any, width: int, rest: int) -> Any:
    """The body with its vectorized loops cut to the remaining elements."""

    def cut(loop: Any) -> Any:
        if int(loop.kind) != tirx.ForKind.VECTORIZED or int(loop.extent) != width:
            return loop
        kind = tirx.ForKind.VECTORIZED if rest > 1 else tirx.ForKind.SERIAL
        extent = tirx.IntImm(str(loop.loop_var.ty.dtype), rest)
        return rebuilt(loop, extent=extent, kind=kind)

    return tvm_ffi.structural_map(body, (tirx.For, cut))


def _ended(loop: Any) -> Any:
    """A vectorized loop that ends where a test of its lanes fails; others are unchanged."""
    test = loop.body
    if int(loop.kind) != tirx.ForKind.VECTORIZED or not isinstance(test, tirx.IfThenElse):
        return loop
    condition = test.condition
    if (
        test.else_case is not None
        or not isinstance(condition, tirx.LT)
        or not condition.a.same_as(loop.loop_var)
        or not isinstance(condition.b, tirx.IntImm)
    ):
        return loop
    extent = min(int(condition.b), int(loop.extent))
    kind = tirx.ForKind.VECTORIZED if extent > 1 else tirx.ForKind.SERIAL
    size = tirx.IntImm(str(loop.loop_var.ty.dtype), extent)
    return rebuilt(loop, extent=size, kind=kind, body=test.then_case)
