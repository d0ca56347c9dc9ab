"""Sine, cosine and tangent of FP64 angles, by vectors.

Angles below 1.6 million are reduced by four parts of pi/2 (W. J. Cody and W. Waite, *Software
Manual for the Elementary Functions*, 1980), and the rest is kept as a sum of two numbers. The C
library computes each larger angle, whose reduction takes hundreds of digits of pi. Coefficients
come from FDLIBM (Sun Microsystems, 1993). Relative errors are below 6e-16.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvmconv.operators import math
from tvmconv.operators.doubles import COUNTS_IN_ONES, constant
from tvmconv.operators.far_elements import FarElements
from tvmconv.operators.row_vectors import side_by_side
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import T
from tvmconv.tvm_api.types import Expr, Tensor

# pi/2 in parts: products of the first three, of 33 bits, with a quarter below 2**20 are exact
_PARTS = (
    float.fromhex("0x1.921fb544p+0"),
    float.fromhex("0x1.0b4611a6p-34"),
    float.fromhex("0x1.3198a2ep-69"),
    float.fromhex("0x1.b839a252049c1p-104"),
)
_TWO_OVER_PI = 0.6366197723675814
_LIMIT = 2.0**20 * 1.57
# sin(x) = x + x**3 * (S0 + x**2 * S(x**2)), and cos(x) = 1 - x**2 / 2 + x**4 * C(x**2)
_SIN_FIRST = -1.66666666666666324348e-01
_SIN = (
    1.58969099521155010221e-10,
    -2.50507602534068634195e-08,
    2.75573137070700676789e-06,
    -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
)
_COS = (
    -1.13596475577881948265e-11,
    2.08757232129817482790e-09,
    -2.75573143513906633035e-07,
    2.48015872894767294178e-05,
    -1.38888888888741095749e-03,
    4.16666666666666019037e-02,
)


def double_angles(data: Tensor, function: str, lanes: int) -> Tensor:
    """Sine, cosine or tangent of each element; NaN for infinities.

    Parameters
    ----------
    data
        An FP64 vector.
    function
        ``sin``, ``cos`` or ``tan``.
    lanes
        Elements of a vector.
    """
    size = int(data.shape[0])

    def write(ins: Any, outs: Any) -> Any:
        source, result = (T.buffer_proxy(buffer) for buffer in (*ins, *outs))
        return _Angles(source, result, function, size, lanes).write()

    found: Any = te.extern([[size]], [data], write, dtype=["float64"], name="double_angles")
    return found


class _Angles(FarElements):
    """The loops; an angle is far if it is large or not finite."""

    def __init__(self, source: Any, result: Any, function: str, size: int, lanes: int) -> None:
        super().__init__(size, lanes)
        self.source, self.result = source, result
        self.near = partial(_near, function)
        self.library = getattr(tirx, function)

    def vector(self, place: Any, width: int) -> None:
        with side_by_side(width) as lane:
            own = place + lane
            self.result[own] = self.near(self.source[own])
            self.far[lane] = self.far[lane] | tirx.Select(
                self._fits(own), tirx.const(0, "int32"), tirx.const(1, "int32")
            )

    def element(self, place: Any) -> None:
        with T.If(tirx.Not(self._fits(place))), T.Then():
            self.result[place] = self.library(self.source[place])

    def _fits(self, place: Any) -> Expr:
        # false for NaN
        return tirx.abs(self.source[place]) < constant(_LIMIT)


def _near(function: str, x: Expr) -> Expr:
    """The function of an angle below the limit."""

    def reduced(x: Expr) -> Expr:
        ones = constant(COUNTS_IN_ONES)
        return _bind(x * constant(_TWO_OVER_PI) + ones, lambda total: counted(x, total))

    def counted(x: Expr, total: Expr) -> Expr:
        # the low bits of the sum are the number of quarters
        quarters = tirx.reinterpret("int64", total)
        return _bind(
            total - constant(COUNTS_IN_ONES),
            lambda n: _rest(x, n, lambda high, low: of_quarter(x, high, low, quarters)),
        )

    def of_quarter(x: Expr, high: Expr, low: Expr, quarters: Expr) -> Expr:
        return _bind(
            high * high,
            lambda z: _bind(
                _sine(high, low, z),
                lambda sine: _bind(
                    _cosine(high, low, z), lambda cosine: chosen(x, sine, cosine, quarters)
                ),
            ),
        )

    def chosen(x: Expr, sine: Expr, cosine: Expr, quarters: Expr) -> Expr:
        one = tirx.const(1, "int64")
        is_odd = (quarters & one) == one
        if function == "tan":
            above = tirx.Select(is_odd, constant(0.0) - cosine, sine)
            value = above / tirx.Select(is_odd, sine, cosine)
        else:
            # sines of the next quarters are cos, -sin, -cos
            shifted = quarters + one if function == "cos" else quarters
            size = (
                tirx.Select(is_odd, sine, cosine)
                if function == "cos"
                else tirx.Select(is_odd, cosine, sine)
            )
            sign = (shifted & tirx.const(2, "int64")) << tirx.const(62, "int64")
            value = tirx.reinterpret("float64", tirx.reinterpret("int64", size) ^ sign)
        if function == "cos":
            return value
        # the reduction loses the sign of zero
        return tirx.Select(x == constant(0.0), x, value)

    return _bind(x, reduced)


def _rest(x: Expr, n: Expr, body: Callable[[Expr, Expr], Expr]) -> Expr:
    """The angle less ``n`` quarters, as a number and what it lacks."""
    first, second, third, fourth = (n * constant(part) for part in _PARTS)

    def finished(total: Expr, lost: Expr) -> Expr:
        return _bind(lost - fourth, lambda low: _sum(total, low, body))

    def next_part(total: Expr, lost: Expr) -> Expr:
        return _difference(
            total, third, lambda rest, more: _bind(lost + more, lambda all_: finished(rest, all_))
        )

    return _bind(x - first, lambda near: _difference(near, second, next_part))


def _difference(a: Expr, b: Expr, body: Callable[[Expr, Expr], Expr]) -> Expr:
    """``a - b`` and its rounding error: D. E. Knuth, *The Art of Computer Programming*, 4.2.2."""

    def second(b: Expr, total: Expr) -> Expr:
        return _bind(total - a, lambda part: error(b, total, part))

    def error(b: Expr, total: Expr, part: Expr) -> Expr:
        kept = _bind(total - part, lambda own: a - own)
        return _bind(kept, lambda one: _bind(one - (b + part), lambda e: body(total, e)))

    return _bind(b, lambda b: _bind(a - b, lambda total: second(b, total)))


def _sum(a: Expr, b: Expr, body: Callable[[Expr, Expr], Expr]) -> Expr:
    """``a + b`` and its rounding error, of a smaller ``b``."""
    return _bind(
        a + b,
        lambda total: _bind(total - a, lambda part: _bind(b - part, lambda e: body(total, e))),
    )


def _sine(x: Expr, low: Expr, z: Expr) -> Expr:
    """Sine of ``x + low`` up to pi/4; ``z`` is the square of ``x``."""
    cube, half = z * x, constant(0.5)
    inner = half * low - cube * math.polynomial(z, _SIN)
    return x - ((z * inner - low) - cube * constant(_SIN_FIRST))


def _cosine(x: Expr, low: Expr, z: Expr) -> Expr:
    """Cosine of ``x + low`` up to pi/4; ``z`` is the square of ``x``."""
    one, series = constant(1.0), z * z * math.polynomial(z, _COS)

    def summed(half: Expr, near: Expr) -> Expr:
        return near + (_bind(one - near, lambda less: less - half) + (series - x * low))

    return _bind(constant(0.5) * z, lambda half: _bind(one - half, lambda near: summed(half, near)))


def _bind(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
    return math.bind(value, body, "angle", "float64")
