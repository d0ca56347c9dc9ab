"""Rounding to 32-bit integers and narrowing to 8 bits, as operators of TIR that vectorise.

Where processors pack vectors with saturation, one vector of 8-bit results is made of several of 32
bits at once. A result is a scalar like any other in an expression;
:mod:`tvmconv.tir.general.narrowing` puts those together that are stored behind each other.
"""

from __future__ import annotations

from tvmconv.operators.math import COUNTS_IN_ONES, constant
from tvmconv.operators.products import registered
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

NEAREST, NARROWED = "tvmconv.nearest", "tvmconv.narrowed"
SCALED, WHOLE = "tvmconv.scaled", "tvmconv.whole"


def nearest(value: Expr) -> Expr:
    """The nearest int32 to a float32 below 2**31, halves to the even one.

    Of values below -2**31 and of NaN it is -2**31.
    """
    return tirx.call_intrin("int32", registered(NEAREST), value)


def whole_number(value: Expr) -> Expr:
    """The nearest integer to a float32, in float32, halves to the even one."""
    return tirx.call_intrin("float32", registered(WHOLE), value)


def scaled(whole: Expr, multiplier: Expr, shift: Expr) -> Expr:
    """``floor(whole * multiplier / 2**(32 + shift) + 1/2)``: a product by a fixed-point number.

    One rounding, to the nearest integer, halves up; nothing saturates.

    Parameters
    ----------
    whole
        int32.
    multiplier
        int32, from 0 on.
    shift
        int32, 1 to 31.
    """
    return tirx.call_intrin("int32", registered(SCALED), whole, multiplier, shift)


def rounded_shift(whole: Expr, shift: Expr) -> Expr:
    """``floor(whole / 2**shift + 1/2)`` of int32; ``shift`` 1 to 31, half of it added fits."""
    return (whole + (tirx.const(1, "int32") << (shift - 1))) >> shift


def narrowed(whole: Expr, low: Expr, high: Expr, zero_point: Expr, dtype: str) -> Expr:
    """``min(max(whole, low), high) + zero_point``, in a type of 8 bits.

    Parameters
    ----------
    whole
        int32.
    low, high, zero_point
        int32, or integers of float32, the same for all elements; each bound and the zero point make
        a value of the type.
    dtype
        ``"uint8"`` or ``"int8"``.
    """
    operands = (whole, low, high, zero_point)
    return tirx.call_intrin(dtype, registered(f"{NARROWED}_{dtype}"), *operands)


def rounded_and_narrowed(value: Expr, low: Expr, high: Expr, zero_point: Expr, dtype: str) -> Expr:
    """The same of a float32, by arithmetic alone."""
    bounded = tirx.min(tirx.max(value, low), high)
    counted = bounded + constant(COUNTS_IN_ONES)
    # two's complement, whatever the sign; more units add integers than floats
    whole = tirx.reinterpret("int32", counted) + zero_point.astype("int32")
    return whole.astype(dtype)
