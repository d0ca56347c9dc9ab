"""Scalar tensor expressions of the fused element-wise steps.

Everything here vectorises: the transcendental functions are polynomials over additions,
multiplications, one division and a bit shift, never a call into the C library.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import te, tirx

from tvmconv.workload import EpilogueOp

_LOG2_E = 1.4426950408889634
# ln 2 in two parts: the high one has few mantissa bits, so that n * high is exact
_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440e-4
_EXP_LOW, _EXP_HIGH = -87.33654, 88.37626
# exp(r) on |r| <= ln(2) / 2, minimax, highest power first (Cephes expf)
_EXP_POLYNOMIAL = (
    1.9875691500e-4,
    1.3981999507e-3,
    8.3334519073e-3,
    4.1665795894e-2,
    1.6666665459e-1,
    5.0000001201e-1,
    1.0,
    1.0,
)
# tanh(x) = x * P(x^2) / Q(x^2) on |x| <= 9, highest power first (the Eigen library's constants)
_TANH_NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_DENOMINATOR = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)


def constant(value: float) -> Any:
    """A float32 constant expression."""
    return tirx.const(value, "float32")


def clamp(value: Any, low: float, high: float) -> Any:
    """``min(max(value, low), high)``."""
    return te.min(te.max(value, constant(low)), constant(high))


def exponential(value: Any) -> Any:
    """``exp(value)`` in float32, relative error below 2e-7.

    Arguments beyond the finite range of the result saturate; NaN stays NaN.
    """
    exponent = te.floor(clamp(value, _EXP_LOW, _EXP_HIGH) * constant(_LOG2_E) + constant(0.5))
    low, high = constant(_EXP_LOW), constant(_EXP_HIGH)
    # ordered comparisons let a NaN through, min and max would not
    bounded = tirx.Select(value > high, high, tirx.Select(value < low, low, value))
    remainder = bounded - exponent * constant(_LN2_HIGH) - exponent * constant(_LN2_LOW)
    bits = (exponent.astype("int32") + 127) << 23
    return _horner(remainder, _EXP_POLYNOMIAL) * tirx.reinterpret("float32", bits)


def sigmoid(value: Any) -> Any:
    """``1 / (1 + exp(-value))``."""
    return constant(1.0) / (constant(1.0) + exponential(constant(0.0) - value))


def hyperbolic_tangent(value: Any) -> Any:
    """``tanh(value)`` as a rational function, absolute error below 4e-7."""
    low, high = constant(-9.0), constant(9.0)
    bounded = tirx.Select(value > high, high, tirx.Select(value < low, low, value))
    square = bounded * bounded
    return bounded * _horner(square, _TANH_NUMERATOR) / _horner(square, _TANH_DENOMINATOR)


def apply_step(value: Any, step: EpilogueOp, bias: Any = None, residual: Any = None) -> Any:
    """One step; ``bias`` and ``residual`` are the scalars that such steps add."""
    kind, params = step.kind, step.params
    if kind == "bias":
        return value + bias
    if kind == "add":
        return value + residual
    if kind == "relu":
        return te.max(value, constant(0.0))
    if kind == "leakyrelu":
        return tirx.Select(value < constant(0.0), value * constant(params[0]), value)
    if kind == "clip":
        return clamp(value, *params)
    if kind == "sigmoid":
        return sigmoid(value)
    if kind == "hardsigmoid":
        return clamp(value * constant(params[0]) + constant(params[1]), 0.0, 1.0)
    if kind == "hardswish":
        gate = clamp(value * constant(1.0 / 6.0) + constant(0.5), 0.0, 1.0)
        return value * gate
    if kind == "silu":
        return value * sigmoid(value)
    return hyperbolic_tangent(value)


def apply_epilogue(
    value: Any, steps: Iterable[EpilogueOp], bias: Any = None, residual: Any = None
) -> Any:
    """All steps in order on one accumulator.

    Parameters
    ----------
    value
        float32 scalar expression.
    steps
        The workload's epilogue.
    bias, residual
        float32 scalar expressions; needed where a step is ``bias`` or ``add``.
    """
    for step in steps:
        value = apply_step(value, step, bias, residual)
    return value


def _horner(value: Any, coefficients: tuple[float, ...]) -> Any:
    result = constant(coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * value + constant(coefficient)
    return result
