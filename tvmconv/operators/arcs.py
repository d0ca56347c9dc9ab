"""Inverse trigonometric functions as scalar FP32 expressions that vectorize.

Polynomials and ranges are from the Cephes library's ``asinf`` and ``atanf`` (S. L. Moshier,
*Methods and Programs for Mathematical Functions*, 1989). Measured over their whole range, the
relative error is below 4e-7.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi, tan

from tvmconv.operators.math import bind, constant, polynomial
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

_ASIN = (4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2, 7.4953002686e-2, 1.6666752422e-1)
_ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)
_SIGN, _MAGNITUDE = -(1 << 31), (1 << 31) - 1


def asin(x: Expr) -> Expr:
    """Arc sine; NaN outside of -1 to 1."""

    def whole(magnitude: Expr, part: Expr) -> Expr:
        twice = constant(pi / 2) - part - part
        return tirx.Select(magnitude > constant(0.5), twice, part)

    return odd(x, lambda magnitude: _asin_part(magnitude, whole))


def acos(x: Expr) -> Expr:
    """Arc cosine; NaN outside of -1 to 1."""

    def body(x: Expr) -> Expr:
        def whole(magnitude: Expr, part: Expr) -> Expr:
            twice = part + part
            outer = tirx.Select(x < constant(0.0), constant(pi) - twice, twice)
            signed = tirx.Select(x < constant(0.0), constant(0.0) - part, part)
            return tirx.Select(magnitude > constant(0.5), outer, constant(pi / 2) - signed)

        return bind(_with_bits(x, _MAGNITUDE), lambda m: _asin_part(m, whole), "arc_m")

    return bind(x, body, "arc_x")


def atan(x: Expr) -> Expr:
    """Arc tangent."""

    def body(magnitude: Expr) -> Expr:
        far = magnitude > constant(tan(3 * pi / 8))
        middle = magnitude > constant(tan(pi / 8))
        one = constant(1.0)
        above = tirx.Select(middle, magnitude - one, magnitude)
        below = tirx.Select(middle, magnitude + one, one)
        ratio = tirx.Select(far, constant(-1.0), above) / tirx.Select(far, magnitude, below)
        near = tirx.Select(middle, constant(pi / 4), constant(0.0))
        start = tirx.Select(far, constant(pi / 2), near)
        return bind(
            ratio,
            lambda t: bind(t * t, lambda z: polynomial(z, _ATAN) * z * t + t, "arc_z") + start,
            "arc_t",
        )

    return odd(x, body)


def _asin_part(magnitude: Expr, whole: Callable[[Expr, Expr], Expr]) -> Expr:
    """``whole`` of a magnitude, and of its arc sine or, above 1/2, of half the rest to pi/2."""
    large = magnitude > constant(0.5)
    half = (constant(1.0) - magnitude) * constant(0.5)
    square = tirx.Select(large, half, magnitude * magnitude)

    def part(z: Expr) -> Expr:
        root = tirx.Select(large, tirx.sqrt(z), magnitude)
        return bind(
            root,
            lambda t: bind(
                polynomial(z, _ASIN) * z * t + t, lambda p: whole(magnitude, p), "arc_p"
            ),
            "arc_t",
        )

    return bind(square, part, "arc_z")


def odd(x: Expr, body: Callable[[Expr], Expr]) -> Expr:
    """``body`` of the magnitude, with the sign of the argument; for odd functions."""

    def signed(x: Expr) -> Expr:
        value = bind(_with_bits(x, _MAGNITUDE), body, "arc_m")
        bits = tirx.reinterpret("int32", value)
        return tirx.reinterpret("float32", bits | (tirx.reinterpret("int32", x) & _int32(_SIGN)))

    return bind(x, signed, "arc_x")


def _with_bits(x: Expr, mask: int) -> Expr:
    return tirx.reinterpret("float32", tirx.reinterpret("int32", x) & _int32(mask))


def _int32(value: int) -> Expr:
    return tirx.const(value, "int32")
