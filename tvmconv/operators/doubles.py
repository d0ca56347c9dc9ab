"""Transcendental functions as scalar FP64 expressions that vectorize.

They are the counterparts of :mod:`tvmconv.operators.math` for float64. Relative errors are below
4e-16. Coefficients of :func:`tanh` come from the Cephes library (S. L. Moshier, *Methods and
Programs for Mathematical Functions*, 1989). Infinities and NaN behave as in libm, and results of
:func:`exp` may be denormal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import factorial

from tvmconv.operators import math
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

# terms of the series of e**x on |x| <= ln(2) / 2 to 4e-18, highest power first
_EXP = tuple(1 / factorial(power) for power in range(13, -1, -1))
# 1.5 * 2**52: the last bit of a sum with it has the value 1
_COUNTS_IN_ONES = 1.5 * 2.0**52
_EXPONENT_BIAS, _MANTISSA_BITS = 1023, 52
# arguments of exp beyond which results are 0 and infinity
_EXP_RANGE = (-746.0, 710.0)
# ln 2 in two parts: a product of the first with an exponent is exact
_LN2_HIGH = float.fromhex("0x1.62e42fefa0000p-1")
_LN2_LOW = float.fromhex("0x1.cf79abc9e3b39p-40")
# tanh(x) = x + x * z * P(z) / Q(z) with z = x * x, on |x| < 0.625
_TANH_NUMERATOR = (-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3)
_TANH_DENOMINATOR = (
    1.0,
    1.12811678491632931402e2,
    2.23548839060100448583e3,
    4.84406305325125486048e3,
)
_TANH_SMALL = 0.625


def _constant(value: float) -> Expr:
    return tirx.const(value, "float64")


def _bind(value: Expr, body: Callable[[Expr], Expr], name: str) -> Expr:
    return math.bind(value, body, name, "float64")


def exp(x: Expr) -> Expr:
    """``e**x`` of a scalar float64 expression."""
    ones = _constant(_COUNTS_IN_ONES)

    def rounded(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
        # a variable, because TVM would simplify the difference
        return _bind(value + ones, lambda total: _bind(total - ones, body, "exp_i"), "exp_s")

    def reduced(x: Expr) -> Expr:
        return rounded(x * _constant(math.LOG2_E), partial(assembled, x))

    def assembled(x: Expr, n: Expr) -> Expr:
        rest = x - n * _constant(_LN2_HIGH) - n * _constant(_LN2_LOW)
        series = _bind(rest, lambda f: math.polynomial(f, _EXP), "exp_f")
        # 2**n may not be finite and normal where the result is: it is multiplied in two steps
        return rounded(n * _constant(0.5), lambda half: series * power(half) * power(n - half))

    def power(n: Expr) -> Expr:
        biased = tirx.reinterpret("int64", n + _constant(_COUNTS_IN_ONES + _EXPONENT_BIAS))
        return tirx.reinterpret("float64", biased << tirx.const(_MANTISSA_BITS, "int64"))

    return _bind(math.between(x, *_EXP_RANGE), reduced, "exp_x")


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + e**-x)`` of a scalar float64 expression."""
    return _constant(1.0) / (_constant(1.0) + exp(_constant(0.0) - x))


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent of a scalar float64 expression."""

    def bits(value: Expr) -> Expr:
        return tirx.reinterpret("int64", value)

    def body(x: Expr) -> Expr:
        # 1 - 2 / (e**2x + 1) cancels near zero; both forms share a division
        small = tirx.abs(x) < _constant(_TANH_SMALL)
        grown = exp(tirx.abs(x) * _constant(2.0)) + _constant(1.0)

        def ratio(square: Expr) -> Expr:
            numerator = square * math.polynomial(square, _TANH_NUMERATOR)
            denominator = math.polynomial(square, _TANH_DENOMINATOR)
            return tirx.Select(small, numerator, _constant(-2.0)) / tirx.Select(
                small, denominator, grown
            )

        def combined(part: Expr) -> Expr:
            size = tirx.abs(x)
            size = tirx.Select(small, size + size * part, _constant(1.0) + part)
            sign = bits(x) & tirx.const(-(2**63), "int64")
            return tirx.reinterpret("float64", bits(size) | sign)

        return _bind(_bind(x * x, ratio, "tanh_z"), combined, "tanh_p")

    return _bind(x, body, "tanh_x")
