"""Activations of epilogues, as arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import ir

from tvmconv.operators.epilogue import GATED, NORMAL, SIGMOID, TANH
from tvmconv.operators.math import inline_gated, inline_normal, inline_sigmoid, inline_tanh
from tvmconv.tir.general.rewrite import function_pass, map_nodes

_EXPRESSIONS: dict[str, Callable[..., Any]] = {
    SIGMOID: inline_sigmoid,
    GATED: inline_gated,
    TANH: inline_tanh,
    NORMAL: inline_normal,
}


def Activations() -> Any:
    """A pass that replaces activations by arithmetic.

    Pattern: an operator of :mod:`tvmconv.operators.epilogue`, on numbers or vectors.

    Rewrite: the operator becomes an expression of :mod:`tvmconv.operators.math`.

    Why here: each pass would visit dozens of nodes for each vector of a register tile, after loops
    are unrolled. With SiLU this was half of the time of a build. The last passes of a family match
    such arithmetic, and run after this pass.
    """
    return function_pass("Activations", _expanded)


def _expanded(func: Any) -> Any:
    def replace(call: Any) -> Any:
        expression = _EXPRESSIONS.get(getattr(call.op, "name", ""))
        return call if expression is None else expression(*call.args)

    return map_nodes(func, (ir.Call, replace))
