"""Intrinsics of stock Relax operators, as expressions that vectorize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tvm import ir, tirx

from tvmconv.operators import arcs, doubles, inverse_hyperbolic, math, powers, sines
from tvmconv.tir.general.rewrite import function_pass, map_nodes


def VectorizableMath() -> Any:
    """A pass that replaces intrinsics by expressions of :mod:`tvmconv.operators.math`,
    :mod:`tvmconv.operators.arcs` and :mod:`tvmconv.operators.inverse_hyperbolic`.

    Pattern: an FP32 call of ``exp``, ``log``, ``tanh``, ``sigmoid``, ``erf``, ``cosh``, ``sinh``,
    ``asin``, ``acos``, ``atan``, ``asinh``, ``acosh`` or ``atanh``, or a call of ``isnan``. TVM
    lowers stock Relax operators to these calls.

    Rewrite: the call becomes arithmetic on its argument, or a comparison with infinity.

    Why here: LLVM lowers these intrinsics to one call of the C library per element. It does not
    know ``cosh`` and ``sinh``, nor inverses of sine and tangent. TVM's vectorizer leaves a loop
    around ``isnan``.
    """
    return function_pass("VectorizableMath", _vectorizable_math)


def VectorizableAngles() -> Any:
    """A pass that replaces functions of an angle by expressions of
    :mod:`tvmconv.operators.sines`.

    Pattern: an FP32 call of ``sin``, ``cos`` or ``tan``.

    Rewrite: the call becomes arithmetic on its argument, in float64 and float32.

    Why here: as for :func:`VectorizableMath`, but for CPUs only. Many GPUs compute float64 at 1/64
    of the rate, and their own functions do not leave a loop.
    """
    table = {"tirx.sin": sines.sin, "tirx.cos": sines.cos, "tirx.tan": sines.tan}
    return function_pass("VectorizableAngles", lambda func: _with_expressions(func, table))


def VectorizableDoubles() -> Any:
    """A pass that replaces FP64 intrinsics by expressions of :mod:`tvmconv.operators.doubles`.

    Pattern: an FP64 call of ``exp``, ``log``, ``sigmoid``, ``tanh`` or ``erf``.

    Rewrite: the call becomes arithmetic on its argument.

    Why here: as for :func:`VectorizableMath`, but for CPUs only, whose vectors have float64.
    """
    table = {
        "tirx.exp": doubles.exp,
        "tirx.log": doubles.log,
        "tirx.sigmoid": doubles.sigmoid,
        "tirx.tanh": doubles.tanh,
        "tirx.erf": doubles.erf,
    }
    return function_pass(
        "VectorizableDoubles", lambda func: _with_expressions(func, table, "float64")
    )


def VectorizablePowers() -> Any:
    """A pass that replaces powers by the expression of :mod:`tvmconv.operators.powers`.

    Pattern: an FP32 call of ``pow``.

    Rewrite: the call becomes arithmetic on its arguments, in float64 and float32.

    Why here: as for :func:`VectorizableAngles`.
    """
    table = {"tirx.pow": powers.power}
    return function_pass("VectorizablePowers", lambda func: _with_expressions(func, table))


def _vectorizable_math(func: Any) -> Any:
    table = {
        "tirx.exp": math.exp,
        "tirx.log": math.log,
        "tirx.tanh": math.tanh,
        "tirx.sigmoid": math.sigmoid,
        "tirx.erf": math.erf,
        "tirx.cosh": math.cosh,
        "tirx.sinh": math.sinh,
        "tirx.asin": arcs.asin,
        "tirx.acos": arcs.acos,
        "tirx.atan": arcs.atan,
        "tirx.asinh": inverse_hyperbolic.asinh,
        "tirx.acosh": inverse_hyperbolic.acosh,
        "tirx.atanh": inverse_hyperbolic.atanh,
    }
    return _with_expressions(func, table)


def _with_expressions(
    func: Any, table: Mapping[str, Callable[..., Any]], dtype: str = "float32"
) -> Any:
    def replace(call: Any) -> Any:
        if getattr(call.op, "name", "") == "tirx.isnan":
            return _exceeds_infinity(call.args[0])
        expression = table.get(getattr(call.op, "name", ""))
        if expression is None or str(call.ty.dtype) != dtype:
            return call
        return expression(*call.args)

    return map_nodes(func, (ir.Call, replace))


def _exceeds_infinity(value: Any) -> Any:
    # TVM simplifies the comparison of a value with itself, and a negated comparison, as if no value
    # was NaN
    ordered = tirx.LE(value, tirx.const(float("inf"), str(value.ty.dtype)))
    return tirx.Select(ordered, tirx.const(False, "bool"), tirx.const(True, "bool"))
