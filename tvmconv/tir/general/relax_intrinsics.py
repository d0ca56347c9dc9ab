"""Intrinsics of stock Relax operators, as expressions that vectorize."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir

from tvmconv.operators import math
from tvmconv.tir.general.rewrite import function_pass


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
    found = False

    def replace(call: Any) -> Any:
        nonlocal found
        expression = table.get(getattr(call.op, "name", ""))
        if expression is None or str(call.ty.dtype) != "float32":
            return call
        found = True
        return expression(call.args[0])

    body = tvm_ffi.structural_map(func.body, (ir.Call, replace))
    return func.with_body(body) if found else func
