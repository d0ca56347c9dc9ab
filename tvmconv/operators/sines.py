"""Sine, cosine and tangent as scalar FP32 expressions that vectorize.

The argument is reduced in float64 by the method of M. H. Payne and R. N. Hanek (*Radian Reduction
for Trigonometric Functions*, ACM SIGNUM Newsletter 18, 1983), without a branch for large arguments.
Errors are below 2 units in the last place for every FP32 number.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from tvmconv.operators.math import bind, constant, polynomial
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

# 1 / (2 pi) in binary: enough digits for the whole circles of the largest number, and for the
# result closest to zero
_TURNS, _DIGITS = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F94, 208
# digits of a part, whose product with a float32 number is exact in float64
_PART, _PARTS = 28, 6
# minimax for relative errors of sin on pi/2 (6e-9) and of tan on pi/4 (1.3e-9)
_SIN = (2.605780488e-6, -1.9809602838e-4, 8.333066245e-3, -1.666665955e-1)
_TAN = (
    4.376298004e-3,
    8.947859649e-5,
    1.08358671765e-2,
    2.12821630202e-2,
    5.40599218959e-2,
    1.333266328316e-1,
    3.333334934980e-1,
)


def sin(x: Expr) -> Expr:
    """Sine; NaN for infinities."""

    def folded(turns: Expr) -> Expr:
        # sin(pi - a) = sin(a) brings every angle to at most a quarter turn
        return tirx.max(_double(-0.5) - turns, tirx.min(_double(0.5) - turns, turns))

    def body(x: Expr) -> Expr:
        value = _sin_of_turns(_bind(_turns(tirx.Cast("float64", x)), folded))
        return _with_zero(x, value)

    return bind(x, body, "sin_x")


def cos(x: Expr) -> Expr:
    """Cosine; NaN for infinities."""
    return _sin_of_turns(_double(0.25) - tirx.abs(_turns(tirx.Cast("float64", x))))


def tan(x: Expr) -> Expr:
    """Tangent; NaN for infinities."""

    def body(x: Expr) -> Expr:
        # the period is half a turn
        halves = _turns(tirx.Cast("float64", x) * _double(2.0))
        return _with_zero(x, tirx.Cast("float32", _bind(halves, near)))

    def near(halves: Expr) -> Expr:
        return _bind(tirx.nearbyint(halves + halves), lambda n: quarter(halves, n))

    def quarter(halves: Expr, quarters: Expr) -> Expr:
        angle = (halves - quarters * _double(0.5)) * _double(pi)
        return _bind(angle, lambda r: _bind(_odd_series(r, _TAN), lambda t: ratio(t, quarters)))

    def ratio(tangent: Expr, quarters: Expr) -> Expr:
        # tan(a + pi/2) = -1 / tan(a)
        even = quarters == _double(0.0)
        above = tirx.Select(even, tangent, _double(-1.0))
        return above / tirx.Select(even, _double(1.0), tangent)

    return bind(x, body, "tan_x")


def _turns(x: Expr) -> Expr:
    """An angle in circles, in float64, less the nearest whole number of circles."""

    def summed(x: Expr) -> Expr:
        turns = x * _double(_part(0))
        for number in range(1, _PARTS):
            rest = _bind(turns, lambda t: t - tirx.nearbyint(t))
            turns = rest + x * _double(_part(number))
        return turns

    return _bind(x, summed)


def _part(number: int) -> float:
    """One of the numbers whose sum is 1 / (2 pi), the largest first."""
    digits = _DIGITS - _PART * (number + 1) if number < _PARTS - 1 else 0
    above = _TURNS >> (_DIGITS - _PART * number) << (_DIGITS - _PART * number)
    return float((_TURNS - above >> digits << digits) * 2.0**-_DIGITS)


def _sin_of_turns(turns: Expr) -> Expr:
    """Sine of at most a quarter turn, given in float64."""
    return bind(tirx.Cast("float32", turns * _double(2 * pi)), lambda r: _odd_series(r, _SIN), "r")


def _odd_series(r: Expr, coefficients: tuple[float, ...]) -> Expr:
    """``r`` and higher odd powers of it."""

    def series(square: Expr) -> Expr:
        return polynomial(square, coefficients) * square * r + r

    return bind(r * r, series, "square", str(r.ty.dtype))


def _with_zero(x: Expr, value: Expr) -> Expr:
    """``value``, except for zeros, whose sign the reduction loses."""
    return tirx.Select(x == constant(0.0), x, value)


def _bind(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    return bind(value, body, "turns", "float64")


def _double(value: float) -> Expr:
    return tirx.const(value, "float64")
