"""Rounding to int32 and narrowing to 8 bits, as TIR operators that vectorize.

CPUs that pack vectors with saturation make one vector of 8-bit results from several int32 vectors.
A result is a scalar like any other in an expression. :mod:`tvmconv.tir.general.narrowing` combines
results that are stored consecutively.
"""

from __future__ import annotations

from tvmconv.operators.math import COUNTS_IN_ONES, constant
from tvmconv.operators.products import registered
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

NEAREST, NARROWED = "tvmconv.nearest", "tvmconv.narrowed"
SCALED, WHOLE = "tvmconv.scaled", "tvmconv.whole"


def nearest(value: Expr) -> Expr:
    """The nearest int32 to an FP32 value below 2**31, ties to even.

    Values below -2**31 and NaN give -2**31.
    """
    return tirx.call_intrin("int32", registered(NEAREST), value)


def whole_number(value: Expr) -> Expr:
    """The nearest integer to an FP32 value, in FP32, ties to even."""
    return tirx.call_intrin("float32", registered(WHOLE), value)


def scaled(whole: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """``floor(whole * multiplier / 2**(32 + shift) + 1/2)``: a fixed-point product.

    It is rounded once, to the nearest integer with ties up, and does not saturate. All operands are
    int32; the multiplier is not negative, and the shift is 1 to 31.
    """
    return tirx.call_intrin("int32", registered(SCALED), whole, multiplier, shift)


def rounded_shift(whole: Expr, shift: Expr) -> Expr:
    """``floor(whole / 2**shift + 1/2)`` of int32, which must not overflow; ``shift`` is 1 to 31."""
    return (whole + (tirx.const(1, "int32") << (shift - 1))) >> shift


def narrowed(whole: Expr, low: Expr, high: Expr, zero_point: Expr, dtype: str) -> Expr:
    """``min(max(whole, low), high) + zero_point`` of an int32, in ``"uint8"`` or ``"int8"``.

    The other operands are int32, or integers in FP32, the same for all elements. Each bound plus
    the zero point is a value of the type.
    """
    operands = (whole, low, high, zero_point)
    return tirx.call_intrin(dtype, registered(f"{NARROWED}_{dtype}"), *operands)


def rounded_and_narrowed(value: Expr, low: Expr, high: Expr, zero_point: Expr, dtype: str) -> Expr:
    """:func:`narrowed` of the nearest integer to an FP32 value, by arithmetic alone."""
    bounded = tirx.min(tirx.max(value, low), high)
    counted = bounded + constant(COUNTS_IN_ONES)
    # two's complement for either sign; more units add integers than floats
    whole = tirx.reinterpret("int32", counted) + zero_point.astype("int32")
    return whole.astype(dtype)
