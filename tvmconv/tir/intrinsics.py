"""Scalar expressions of stock Relax operators: made to vectorise, and to keep NaN."""

from __future__ import annotations

from typing import Any


def vectorisable_math(func: Any) -> Any:
    """Replace float32 ``exp``, ``log``, ``tanh``, ``sigmoid``, ``erf``, ``cosh`` and ``sinh``.

    Functions that stock Relax operators were lowered to call intrinsics, which LLVM would turn
    into a library call per element; the last two it does not know.

    Parameters
    ----------
    func
        ``tirx.PrimFunc``.

    Returns
    -------
    tirx.PrimFunc
        The function itself where it uses none of them.
    """
    import tvm_ffi
    from tvm import ir

    from tvmconv.operators import math

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


def constants_first(func: Any) -> Any:
    """Write ``max(x, c)`` and ``min(x, c)`` of a float constant as ``max(c, x)``, ``min(c, x)``.

    Either compiles to one instruction, but of a NaN only the second keeps it, see
    :func:`tvmconv.operators.math.at_least`.
    """
    import tvm_ffi
    from tvm import tirx

    def swap(node: Any) -> Any:
        if isinstance(node.b, tirx.FloatImm) and not isinstance(node.a, tirx.FloatImm):
            return type(node)(node.b, node.a)
        return node

    body = tvm_ffi.structural_map(func.body, ((tirx.Max, tirx.Min), swap), order="post")
    return func.with_body(body)
