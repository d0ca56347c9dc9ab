"""Rounding to 32-bit integers and narrowing to 8 bits, as operators of TIR that vectorise.

Where processors pack vectors with saturation, one vector of 8-bit results is made of several of 32
bits at once. A result is a scalar like any other in an expression;
:mod:`tvmconv.tir.narrowing` puts those together that are stored behind each other.
"""

from __future__ import annotations

from tvmconv.operators.math import COUNTS_IN_ONES, constant
from tvmconv.operators.products import registered
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

NEAREST, NARROWED = "tvmconv.nearest", "tvmconv.narrowed"


def nearest(value: Expr) -> Expr:
    """The nearest int32 to a float32 below 2**31, halves to the even one.

    Of values below -2**31 and of NaN it is -2**31.
    """
    return tirx.call_intrin("int32", registered(NEAREST), value)


def narrowed(whole: Expr, low: Expr, high: Expr, zero_point: Expr, dtype: str) -> Expr:
    """``min(max(whole, low), high) + zero_point``, in a type of 8 bits.

    Parameters
    ----------
    whole
        int32.
    low, high, zero_point
        float32 integers, the same for all elements; each bound and the zero point make a value of
        the type.
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
