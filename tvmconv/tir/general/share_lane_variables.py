"""Gives all vectorized loops of one length the same variable."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import function_pass, substitute


def ShareLaneVariables() -> Any:
    """A pass that gives all vectorized loops of one extent and type the same loop variable.

    Pattern: several vectorized loops of one constant extent, in SSA form, that are not nested.

    Rewrite: their variables become one. The form is no longer SSA until VectorizeLoop, a few
    passes later, removes these loops.

    Why here: TVM's arithmetic analyzer remembers the range of every variable, and consults all
    ranges in every comparison. An unrolled kernel has thousands of vector loops, so that passes
    take quadratic time (25 s for one 7x7 first layer).
    """
    return function_pass("ShareLaneVariables", _share_lanes)


def _share_lanes(func: Any) -> Any:
    shared: dict[tuple[int, str], Any] = {}
    names: dict[Any, Any] = {}

    def look(loop: Any) -> None:
        if int(loop.kind) == tirx.ForKind.VECTORIZED and isinstance(loop.extent, tirx.IntImm):
            kind = (int(loop.extent), str(loop.loop_var.ty))
            names[loop.loop_var] = shared.setdefault(kind, ir.Var("lane", loop.loop_var.ty))

    tvm_ffi.structural_walk(func.body, (tirx.For, look))
    if len(names) == len(shared):
        return func
    return func.with_body(substitute(func.body, names))
