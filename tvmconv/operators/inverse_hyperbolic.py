"""Inverse hyperbolic functions as scalar FP32 expressions that vectorize.

Polynomials and ranges are from the Cephes library's ``asinhf``, ``acoshf`` and ``atanhf``
(S. L. Moshier, *Methods and Programs for Mathematical Functions*, 1989). Measured over their whole
range, the relative error is below 5e-7.
"""

from __future__ import annotations

from math import log as logarithm

from tvmconv.operators.arcs import odd
from tvmconv.operators.math import bind, constant, log, polynomial
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

_ASINH = (2.0122003309e-2, -4.2699340972e-2, 7.4847586088e-2, -1.6666288134e-1)
_ACOSH = (
    1.7596881071e-3,
    -7.5272886713e-3,
    2.6454905019e-2,
    -1.1784741703e-1,
    1.4142135263,
)
_ATANH = (
    1.81740078349e-1,
    8.24370301058e-2,
    1.46691431730e-1,
    1.99782164500e-1,
    3.33337300303e-1,
)
# from here on, the square root of x**2 + 1 or x**2 - 1 is x
_FAR = 1e4


def asinh(x: Expr) -> Expr:
    """Inverse hyperbolic sine."""

    def body(m: Expr) -> Expr:
        square = m * m
        near = bind(square, lambda z: polynomial(z, _ASINH) * z * m + m, "area_z")
        far = _log_of_sum(m, tirx.sqrt(square + constant(1.0)))
        return tirx.Select(m < constant(0.5), near, far)

    return odd(x, body)


def acosh(x: Expr) -> Expr:
    """Inverse hyperbolic cosine; NaN below 1."""

    def body(x: Expr) -> Expr:
        return bind(x - constant(1.0), lambda z: parts(x, z), "area_z")

    def parts(x: Expr, z: Expr) -> Expr:
        near = polynomial(z, _ACOSH) * tirx.sqrt(z)
        far = _log_of_sum(x, tirx.sqrt(z * (x + constant(1.0))))
        return tirx.Select(z < constant(0.5), near, far)

    return bind(x, body, "area_x")


def atanh(x: Expr) -> Expr:
    """Inverse hyperbolic tangent; infinite at -1 and 1, NaN outside."""

    def body(m: Expr) -> Expr:
        near = bind(m * m, lambda z: polynomial(z, _ATANH) * z * m + m, "area_z")
        far = constant(0.5) * log((constant(1.0) + m) / (constant(1.0) - m))
        return tirx.Select(m < constant(0.5), near, far)

    return odd(x, body)


def _log_of_sum(x: Expr, root: Expr) -> Expr:
    """The logarithm of ``x + root``, where the root is ``x`` for large ones; none overflows."""
    large = x > constant(_FAR)
    offset = tirx.Select(large, constant(logarithm(2)), constant(0.0))
    return log(tirx.Select(large, x, x + root)) + offset
