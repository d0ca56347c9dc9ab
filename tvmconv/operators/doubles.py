"""Transcendental functions as scalar FP64 expressions that vectorize.

They are the counterparts of :mod:`tvmconv.operators.math` for float64. Relative errors are below
4e-16. Coefficients of :func:`tanh` come from the Cephes library (S. L. Moshier, *Methods and
Programs for Mathematical Functions*, 1989), and those of :func:`log` from FDLIBM (Sun Microsystems,
1993). Infinities and NaN behave as in libm, and results of :func:`exp` may be denormal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import factorial, inf, nan

from tvmconv.operators import math
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

# terms of the series of e**x on |x| <= ln(2) / 2 to 4e-18, highest power first
_EXP = tuple(1 / factorial(power) for power in range(13, -1, -1))
# 1.5 * 2**52: the last bit of a sum with it has the value 1
COUNTS_IN_ONES = 1.5 * 2.0**52
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
# with s = f / (2 + f): log(1 + f) = f - s * (f - R(s * s)) to 2e-18, on sqrt(1/2) to sqrt(2)
_LOG = (
    1.479819860511658591e-1,
    1.531383769920937332e-1,
    1.818357216161805012e-1,
    2.222219843214978396e-1,
    2.857142874366239149e-1,
    3.999999999940941908e-1,
    6.666666666666735130e-1,
)
_SQRT2 = 1.4142135623730951
_SMALLEST_NORMAL, _DENORMAL_BITS = 2.0**-1022, 54
# reinterpreted, an integer below 2**52 with these bits is the number 2**52 plus the integer
_INTEGER_BITS = 0x433 << _MANTISSA_BITS
# erf(x) = x * P(x * x) to 2e-17 relatively, on |x| <= 1
_ERF_SMALL = (
    -7.798543850549947e-10,
    1.3721520406351094e-08,
    -1.6208829856810202e-07,
    1.6447471190594618e-06,
    -1.4924740785377576e-05,
    0.00012055295112667001,
    -0.0008548325982543225,
    0.005223977607269946,
    -0.026866170643256995,
    0.1128379167094513,
    -0.37612638903183543,
    1.1283791670955126,
)
# 1 - erf(x) = e**(-x * x) * Q((x - 2) / (x + 2)) to 2e-17, on 1 <= x <= 6
_ERF_LARGE = (
    3.868042968542998e-06,
    1.8765502050272152e-06,
    -1.406786930653262e-05,
    -2.766675738497479e-05,
    2.754702797013458e-05,
    0.00017436954864596003,
    4.3553517252186966e-05,
    -0.000981977486007499,
    -0.0008471431505913994,
    0.006997461753063671,
    0.003732892402069958,
    -0.078978581015931,
    0.2416581942424851,
    -0.4271858474139575,
    0.2553956763105057,
)
# from here on the nearest float64 number is 1
_ERF_END = 6.0


def constant(value: float) -> Expr:
    """A float64 literal."""
    return tirx.const(value, "float64")


def _bind(value: Expr, body: Callable[[Expr], Expr], name: str) -> Expr:
    return math.bind(value, body, name, "float64")


def exp(x: Expr) -> Expr:
    """``e**x`` of a scalar float64 expression."""
    ones = constant(COUNTS_IN_ONES)

    def rounded(value: Expr, body: Callable[[Expr], Expr]) -> Expr:
        # a variable, because TVM would simplify the difference
        return _bind(value + ones, lambda total: _bind(total - ones, body, "exp_i"), "exp_s")

    def reduced(x: Expr) -> Expr:
        return rounded(x * constant(math.LOG2_E), partial(assembled, x))

    def assembled(x: Expr, n: Expr) -> Expr:
        rest = x - n * constant(_LN2_HIGH) - n * constant(_LN2_LOW)
        series = _bind(rest, lambda f: math.polynomial(f, _EXP), "exp_f")
        # 2**n may not be finite and normal where the result is: it is multiplied in two steps
        return rounded(n * constant(0.5), lambda half: series * power(half) * power(n - half))

    def power(n: Expr) -> Expr:
        biased = tirx.reinterpret("int64", n + constant(COUNTS_IN_ONES + _EXPONENT_BIAS))
        return tirx.reinterpret("float64", biased << tirx.const(_MANTISSA_BITS, "int64"))

    return _bind(math.between(x, *_EXP_RANGE), reduced, "exp_x")


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + e**-x)`` of a scalar float64 expression."""
    return constant(1.0) / (constant(1.0) + exp(constant(0.0) - x))


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent of a scalar float64 expression."""

    def body(x: Expr) -> Expr:
        # 1 - 2 / (e**2x + 1) cancels near zero; both forms share a division
        small = tirx.abs(x) < constant(_TANH_SMALL)
        grown = exp(tirx.abs(x) * constant(2.0)) + constant(1.0)

        def ratio(square: Expr) -> Expr:
            numerator = square * math.polynomial(square, _TANH_NUMERATOR)
            denominator = math.polynomial(square, _TANH_DENOMINATOR)
            return tirx.Select(small, numerator, constant(-2.0)) / tirx.Select(
                small, denominator, grown
            )

        def combined(part: Expr) -> Expr:
            size = tirx.abs(x)
            return _signed(tirx.Select(small, size + size * part, constant(1.0) + part), x)

        return _bind(_bind(x * x, ratio, "tanh_z"), combined, "tanh_p")

    return _bind(x, body, "tanh_x")


def log(x: Expr) -> Expr:
    """Natural logarithm of a scalar float64 expression; NaN below zero, -inf at zero."""

    def normal(x: Expr) -> Expr:
        # a denormal has no implicit leading one
        is_small = x < constant(_SMALLEST_NORMAL)
        scaled = tirx.Select(is_small, x * constant(2.0**_DENORMAL_BITS), x)
        bias = tirx.Select(
            is_small,
            constant(2.0**_MANTISSA_BITS + _EXPONENT_BIAS + _DENORMAL_BITS),
            constant(2.0**_MANTISSA_BITS + _EXPONENT_BIAS),
        )
        return _bind(scaled, lambda y: split(x, tirx.reinterpret("uint64", y), bias), "log_y")

    def split(x: Expr, bits: Expr, bias: Expr) -> Expr:
        # no CPU before AVX-512 converts vectors of 64-bit integers
        exponent = tirx.reinterpret(
            "float64",
            (bits >> tirx.const(_MANTISSA_BITS, "uint64")) | tirx.const(_INTEGER_BITS, "uint64"),
        )
        fraction = bits & tirx.const((1 << _MANTISSA_BITS) - 1, "uint64")
        one = tirx.const(_EXPONENT_BIAS << _MANTISSA_BITS, "uint64")
        mantissa = tirx.reinterpret("float64", fraction | one)
        return _bind(
            mantissa,
            lambda m: _bind(exponent - bias, lambda n: centered(x, m, n), "log_e"),
            "log_m",
        )

    def centered(x: Expr, m: Expr, n: Expr) -> Expr:
        # from sqrt(1/2) to sqrt(2)
        above = m > constant(_SQRT2)
        f = tirx.Select(above, m * constant(0.5), m) - constant(1.0)
        n = tirx.Select(above, n + constant(1.0), n)
        return _bind(f, lambda f: _bind(n, lambda n: special(x, series(f, n)), "log_n"), "log_f")

    def series(f: Expr, n: Expr) -> Expr:
        def summed(s: Expr, half: Expr) -> Expr:
            tail = _bind(s * s, lambda z: z * math.polynomial(z, _LOG), "log_z")
            low = s * (half + tail) + n * constant(_LN2_LOW)
            return n * constant(_LN2_HIGH) - ((half - low) - f)

        half = constant(0.5) * f * f
        ratio = f / (f + constant(2.0))
        return _bind(ratio, lambda s: _bind(half, lambda h: summed(s, h), "log_h"), "log_s")

    def special(x: Expr, value: Expr) -> Expr:
        value = tirx.Select(x < constant(inf), value, x)  # +inf and NaN
        value = tirx.Select(x <= constant(0.0), constant(-inf), value)
        return tirx.Select(x < constant(0.0), constant(nan), value)

    return _bind(x, normal, "log_x")


def erf(x: Expr) -> Expr:
    """Error function of a scalar float64 expression."""

    def body(x: Expr) -> Expr:
        square = tirx.min(constant(1.0), x * x)
        near = _bind(square, lambda z: x * math.polynomial(z, _ERF_SMALL), "erf_z")
        size = tirx.abs(x)
        return tirx.Select(size < constant(1.0), near, _signed(far(size), x))

    def far(size: Expr) -> Expr:
        # the first operand of a minimum with NaN is lost
        return _bind(tirx.min(constant(_ERF_END), size), rest, "erf_a")

    def rest(size: Expr) -> Expr:
        place = (size - constant(2.0)) / (size + constant(2.0))
        ratio = _bind(place, lambda u: math.polynomial(u, _ERF_LARGE), "erf_u")
        return constant(1.0) - exp(constant(0.0) - size * size) * ratio

    return _bind(x, body, "erf_x")


def _signed(size: Expr, like: Expr) -> Expr:
    """A positive number with the sign of another one."""
    sign = tirx.reinterpret("int64", like) & tirx.const(-(2**63), "int64")
    return tirx.reinterpret("float64", tirx.reinterpret("int64", size) | sign)
