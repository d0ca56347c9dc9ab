"""The exponential of numbers that are not positive, for softmax."""

from __future__ import annotations

from tvmconv.operators.math import (
    COUNTS_IN_ONES,
    LN2_HIGH,
    LN2_LOW,
    LOG2_E,
    at_least,
    bind,
    constant,
    polynomial,
)
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

# Minimax on half of ln 2 for results relative to e**x, to 3.1e-9: the error is the rounding's.
_COEFFICIENTS = (
    1.3814583654e-3,
    8.3687240258e-3,
    4.1668388993e-2,
    1.6666521132e-1,
    4.9999994040e-1,
    1.0,
    1.0,
)
_EXPONENT_BIAS, _FRACTION_BITS = 127, 23
# the power of two is zero here
_LOWEST = -88.0


def exp_of_negative(x: Expr) -> Expr:
    """``e**x`` of a scalar float32 expression that is at most 0, or NaN, which stays NaN.

    The relative error is below 1.3e-7. Results below 8.4e-39 are zero. The exponent needs neither a
    rounding nor a conversion: a large constant moves it to the low bits of a sum.
    """
    bias = constant(COUNTS_IN_ONES + _EXPONENT_BIAS)

    def rounded(x: Expr) -> Expr:
        return bind(x * constant(LOG2_E) + bias, lambda n: assembled(x, n), "exp_n")

    def assembled(x: Expr, biased: Expr) -> Expr:
        bits = tirx.reinterpret("int32", biased) << _FRACTION_BITS
        rest = bind(
            biased - bias, lambda n: x - n * constant(LN2_HIGH) - n * constant(LN2_LOW), "exp_r"
        )
        series = bind(rest, lambda f: polynomial(f, _COEFFICIENTS), "exp_f")
        return series * tirx.reinterpret("float32", bits)

    return bind(at_least(x, _LOWEST), rounded, "exp_x")
