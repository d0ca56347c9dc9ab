"""A last, shorter vector where a vector's length does not divide a loop."""

from __future__ import annotations

from typing import Any

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

    Pattern: a loop over whole vectors, marked with the vector's lanes and the elements that
    remain for the last one, around vectorised loops whose elements are tested against the end.

    Rewrite: the last iteration becomes a statement of its own, its vectorised loops cut to the
    remaining elements (a serial loop where one remains); the tests are then proven and dropped.

    Why here: VectorizeLoop turns a vectorised loop whose lanes are tested one by one back into a
    serial one, in every iteration and not in the last only, and LoopPartition leaves loops of
    constant extent as they are. LLVM unrolls what results instead of vectorising it: slow code,
    and seconds of compile time where the body is a polynomial.
    """
    return function_pass("VectorTails", _split_tails)


def _split_tails(func: Any) -> Any:
    from tvm import s_tir, tirx

    def split(loop: Any, sizes: Any) -> Any:
        width, rest = (int(size) for size in sizes)
        last = int(loop.extent) - 1
        whole = rebuilt(loop, extent=tirx.IntImm(str(loop.loop_var.ty.dtype), last))
        body = substitute(loop.body, {loop.loop_var: last})
        return tirx.SeqStmt([whole, _narrowed(body, width, rest)])

    replaced = replace_marked(func, {TAIL: split})
    if replaced is func:
        return func
    return transformed(replaced, tirx.transform.ConvertSSA(), s_tir.transform.StmtSimplify())


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
