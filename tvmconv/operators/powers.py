"""Powers as scalar FP32 expressions that vectorize.

The magnitude is ``e**(y * log |x|)`` in float64, so that the rounded result is within one unit in
the last place. Zeros, infinities, NaN and signs are those of C's ``powf``.
"""

from __future__ import annotations

from math import inf, nan

from tvmconv.operators import doubles
from tvmconv.operators.math import bind, constant
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

_SIGN_BIT = -(2**31)


def power(x: Expr, y: Expr) -> Expr:
    """``x**y`` of two scalar float32 expressions."""

    def magnitude(x: Expr, y: Expr) -> Expr:
        size = tirx.abs(tirx.Cast("float64", x))
        grown = doubles.exp(tirx.Cast("float64", y) * doubles.log(size))
        # powers of one are one, also those by infinity
        is_one = tirx.any(tirx.abs(x) == constant(1.0), y == constant(0.0))
        return tirx.Select(is_one, constant(1.0), tirx.Cast("float32", grown))

    def signed(x: Expr, y: Expr, size: Expr) -> Expr:
        # infinity counts as even
        half = y * constant(0.5)
        is_whole = tirx.floor(y) == y
        is_odd = tirx.all(is_whole, tirx.floor(half) != half)
        bits = tirx.reinterpret("int32", x) & tirx.const(_SIGN_BIT, "int32")
        sign = tirx.Select(is_odd, bits, tirx.const(0, "int32"))
        value = tirx.reinterpret("float32", tirx.reinterpret("int32", size) | sign)
        # roots of negative numbers, and the power of -1 by NaN
        is_negative = tirx.all(x < constant(0.0), x > constant(-inf))
        root = tirx.Select(is_negative, constant(nan), value)
        value = tirx.Select(is_whole, value, root)
        return tirx.Select(x == constant(1.0), constant(1.0), value)

    def body(x: Expr, y: Expr) -> Expr:
        return bind(magnitude(x, y), lambda size: signed(x, y, size), "pow_m")

    return bind(x, lambda x: bind(y, lambda y: body(x, y), "pow_y"), "pow_x")
