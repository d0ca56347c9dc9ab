"""Intrinsics of stock Relax operators, as expressions that vectorize."""

from __future__ import annotations

from typing import Any

from tvm import ir

from tvmconv.operators import math
from tvmconv.tir.general.rewrite import function_pass, map_nodes


def VectorizableMath() -> Any:
    """A pass that replaces intrinsics by expressions of :mod:`tvmconv.operators.math`.

    Pattern: an FP32 call of ``exp``, ``log``, ``tanh``, ``sigmoid``, ``erf``, ``cosh`` or ``sinh``.
    TVM lowers stock Relax operators to these calls.

    Rewrite: the call becomes arithmetic on its argument.

    Why here: LLVM lowers these intrinsics to one call of the C library per element, and does not
    know the last two.
    """
    return function_pass("VectorizableMath", _vectorizable_math)


def _vectorizable_math(func: Any) -> Any:
    table = {
        "tirx.exp": math.exp,
        "tirx.log": math.log,
        "tirx.tanh": math.tanh,
        "tirx.sigmoid": math.sigmoid,
        "tirx.erf": math.erf,
        "tirx.cosh": math.cosh,
        "tirx.sinh": math.sinh,
    }

    def replace(call: Any) -> Any:
        expression = table.get(getattr(call.op, "name", ""))
        if expression is None or str(call.ty.dtype) != "float32":
            return call
        return expression(call.args[0])

    return map_nodes(func, (ir.Call, replace))
