"""Transcendental functions as scalar FP32 expressions that vectorize.

LLVM lowers a vector ``exp`` or ``tanh`` to one library call per lane. The functions here are
polynomial expressions, hence vector instructions in any vectorized loop. Measured over their whole
range the relative error is below 4e-7 (:func:`pow_positive`: below 2e-6 for results between 1e-4
and 1e4). Coefficients come from the Cephes library (S. L. Moshier, *Methods and Programs for
Mathematical Functions*, 1989; single precision ``expf``, ``logf``, ``tanhf``). Coefficients of
:func:`erf` and :func:`inline_tanh` come from Eigen's rational approximations.

An expression made here defines variables, and TVM accepts each definition once per function. If a
result is used more than once, :func:`bind` it. The ``inline`` functions define no variables, so
that an unrolled register tile can contain any number of copies. Epilogues use them.

Infinities and NaN behave as in libm. Results of ``exp`` below 1.7e-38 are flushed to zero.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.types import Expr

# Powers from the highest down, constant term last.
# Twice the minimax polynomial for results relative to e**x, to 3.1e-9: rounding errs by more.
_TWICE_EXP = (
    2.7629167308e-3,
    1.6737448052e-2,
    8.3336777986e-2,
    3.3333042264e-1,
    9.9999988080e-1,
    2.0,
    2.0,
)
# Twice the minimax polynomial of degree 5 relative to e**-x, to 7.5e-8: 1 + e**-x rounds as much.
_TWICE_NEGATIVE_EXP = (
    *(-0.016595238352, 0.08383125846, -0.333351531, 0.9999778532, -1.9999993822, 2.000000144),
)
LOG2_E, LN2 = 1.44269504088896341, 0.693147180559945309
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_TANH = (
    -5.70498872745e-3,
    2.06390887954e-2,
    -5.37397155531e-2,
    1.33314422036e-1,
    -3.33332819422e-1,
)
# coefficients of x**3, x**5, ... in the series of sinh, to 3e-8 at 1
_SINH = (2.7557319224e-6, 1.9841269841e-4, 8.3333333333e-3, 1.6666666667e-1)
# tanh(x) = x * P(x^2) / Q(x^2) on |x| <= 9
_TANH_NUMERATOR = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_DENOMINATOR = (
    1.19825839466702e-06,
    1.18534705686654e-04,
    2.26843463243900e-03,
    4.89352518554385e-03,
)
_ERF_NUMERATOR = (
    -2.72614225801306e-10,
    2.77068142495902e-08,
    -2.10102402082508e-06,
    -5.69250639462346e-05,
    -7.34990630326855e-04,
    -2.95459980854025e-03,
    -1.60960333262415e-02,
)
_ERF_DENOMINATOR = (
    -1.45660718464996e-05,
    -2.13374055278905e-04,
    -1.68282697438203e-03,
    -7.37332916720468e-03,
    -1.42647390514189e-02,
)
# erf(x / sqrt 2) / 2 with the factors in the coefficients, which are powers of x^2
_NORMAL_NUMERATOR = tuple(
    0.5**1.5 * c * 0.5**power for power, c in zip(range(6, -1, -1), _ERF_NUMERATOR, strict=True)
)
_NORMAL_DENOMINATOR = tuple(
    c * 0.5**power for power, c in zip(range(4, -1, -1), _ERF_DENOMINATOR, strict=True)
)
# Here their ratio is exactly one half, with FMAs and with separately rounded products.
_NORMAL_END = 5.604
# 1.5 * 2^23: adding an integer up to 2^22 in magnitude gives a float32 whose last bit has the value
# 1, so that its low bits are the integer
COUNTS_IN_ONES = 12582912.0
# bias of the exponent of half a power of two
_EXP_BIAS = 126
# arguments of exp with a finite, normal result
_EXP_RANGE = (-87.33654, 88.37626)
# from here on exp is infinite
_EXP_END = 89.0
_SMALLEST_NORMAL, _DENORMAL_BITS = 1.17549435e-38, 23
# ln 2 in two parts; the first has few bits, so that n * LN2_HIGH is exact
LN2_HIGH = 0.693359375
LN2_LOW = -2.12194440e-4


def constant(value: float) -> Expr:
    """An FP32 literal."""
    return tirx.const(value, "float32")


def literal(number: float, like: Expr) -> Expr:
    """A literal with the type of an expression or tensor element."""
    dtype = like.dtype if hasattr(like, "dtype") else like.ty.dtype
    return tirx.const(number, str(dtype))


def at_least(x: Expr, low: float) -> Expr:
    """``max(x, low)``; NaN stays NaN.

    TVM compiles ``max(a, b)`` to ``a > b ? a : b``, which is x86's instruction and returns ``b`` if
    either is NaN. The order of the operands therefore decides, at no cost.
    """
    return tirx.max(literal(low, x), x)


def between(x: Expr, low: float, high: float) -> Expr:
    """``min(max(x, low), high)``; NaN stays NaN, and an infinite bound takes no instruction."""
    if low != -inf:
        x = at_least(x, low)
    return x if high == inf else tirx.min(literal(high, x), x)


def sign(x: Expr) -> Expr:
    """1, -1, or the argument itself if it is zero or NaN."""
    below = tirx.Select(x < constant(0.0), constant(-1.0), x)
    return tirx.Select(x > constant(0.0), constant(1.0), below)


def limited(x: Expr, low: float, high: float) -> Expr:
    """``x`` between two bounds; NaN stays NaN, because every comparison with it is false."""
    lower, upper = literal(low, x), literal(high, x)
    return tirx.Select(x > upper, upper, tirx.Select(x < lower, lower, x))


def bind(
    value: Expr, body: Callable[[Expr], Expr], name: str = "t", dtype: str = "float32"
) -> Expr:
    """``body(value)`` with the value computed once, even if the body uses it repeatedly."""
    var = tirx.Var(name, dtype)
    return tirx.Let(var, value, body(var))


def polynomial(x: Expr, coefficients: tuple[float, ...]) -> Expr:
    """Horner's rule, highest power first."""
    result = literal(coefficients[0], x)
    for coefficient in coefficients[1:]:
        result = result * x + literal(coefficient, x)
    return result


def exp(x: Expr) -> Expr:
    """``e**x`` of a scalar float32 expression."""
    bias = constant(COUNTS_IN_ONES + _EXP_BIAS)

    def reduced(x: Expr) -> Expr:
        # the low bits of this sum are the biased exponent: neither rounded nor converted
        return bind(x * constant(LOG2_E) + bias, lambda n: assembled(x, n), "exp_n")

    def assembled(x: Expr, biased: Expr) -> Expr:
        # 2**n is infinite where e**x may still be finite: twice the series, times 2**(n-1)
        power = tirx.reinterpret("float32", tirx.reinterpret("int32", biased) << 23)
        rest = bind(
            biased - bias, lambda n: x - n * constant(LN2_HIGH) - n * constant(LN2_LOW), "exp_r"
        )
        return bind(rest, lambda f: polynomial(f, _TWICE_EXP), "exp_f") * power

    return bind(between(x, _EXP_RANGE[0], _EXP_END), reduced, "exp_x")


def log(x: Expr) -> Expr:
    """Natural logarithm of a scalar float32 expression; NaN below zero, -inf at zero."""

    def normal(x: Expr) -> Expr:
        # a denormal has no implicit leading one
        is_small = x < constant(_SMALLEST_NORMAL)
        scaled = tirx.Select(is_small, x * constant(2.0**_DENORMAL_BITS), x)
        lost = tirx.Select(is_small, constant(_DENORMAL_BITS), constant(0.0))
        return bind(scaled, lambda y: bind(lost, lambda n: split(x, y, n), "log_lost"), "log_y")

    def split(x: Expr, y: Expr, lost: Expr) -> Expr:
        bits = tirx.reinterpret("int32", y)
        # mantissa in [sqrt(1/2), sqrt(2)): the offset moves the cut from 1 to sqrt(1/2)
        shifted = bits - tirx.const(0x3F3504F3, "int32")
        exponent = tirx.Cast("float32", shifted >> 23) - lost
        mantissa = tirx.reinterpret("float32", bits - ((shifted >> 23) << 23))
        return bind(
            mantissa - constant(1.0),
            lambda f: bind(exponent, lambda n: special(x, series(f, n)), "log_n"),
            "log_f",
        )

    def series(f: Expr, n: Expr) -> Expr:
        square = f * f
        tail = polynomial(f, _LOG) * f * square + n * constant(LN2_LOW)
        return tail - constant(0.5) * square + f + n * constant(LN2_HIGH)

    def special(x: Expr, value: Expr) -> Expr:
        value = tirx.Select(x < constant(inf), value, x)  # +inf and NaN
        value = tirx.Select(x <= constant(0.0), constant(-inf), value)
        return tirx.Select(x < constant(0.0), constant(float("nan")), value)

    return bind(x, normal, "log_x")


def sigmoid(x: Expr) -> Expr:
    """``1 / (1 + e**-x)`` of a scalar float32 expression."""
    return constant(1.0) / (constant(1.0) + exp(constant(0.0) - x))


def inline_sigmoid(x: Expr) -> Expr:
    """``1 / (1 + e**-x)`` without variables."""
    return literal(1.0, x) / _one_and_exp(x)


def inline_gated(x: Expr, gate: Expr) -> Expr:
    """``x / (1 + e**-gate)`` without variables; NaN where both are infinite."""
    return x / _one_and_exp(gate)


def _one_and_exp(x: Expr) -> Expr:
    """``1 + e**-x`` without variables; NaN stays NaN.

    The power of two is normal or zero. Where ``e**-x`` overflows, the sum is infinite. The FMA of
    the rest needs no second part of ``ln 2``, whose error in FP32 is 2e-9.
    """
    limited_x = between(x, -_EXP_END, -_EXP_RANGE[0])
    bias = literal(COUNTS_IN_ONES + _EXP_BIAS, x)
    # the low bits of this sum are the biased exponent: neither rounded nor converted
    biased = bias - limited_x * literal(LOG2_E, x)
    number = str(biased.ty.dtype)
    power = tirx.reinterpret(number, tirx.reinterpret(number.replace("float", "int"), biased) << 23)
    rest = limited_x + (biased - bias) * literal(LN2, x)
    return polynomial(rest, _TWICE_NEGATIVE_EXP) * power + literal(1.0, x)


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent of a scalar float32 expression."""

    def body(x: Expr) -> Expr:
        magnitude = tirx.Select(x < constant(0.0), constant(0.0) - x, x)
        # 1 - 2/(e^2x + 1) cancels near zero
        small = bind(x * x, lambda z: polynomial(z, _TANH) * z * x + x, "tanh_z")
        return bind(
            magnitude, lambda m: tirx.Select(m < constant(0.625), small, large(x, m)), "tanh_m"
        )

    def large(x: Expr, magnitude: Expr) -> Expr:
        value = constant(1.0) - constant(2.0) / (exp(magnitude * constant(2.0)) + constant(1.0))
        return value * tirx.Select(x < constant(0.0), constant(-1.0), constant(1.0))

    return bind(x, body, "tanh_x")


def cosh(x: Expr) -> Expr:
    """Hyperbolic cosine of a scalar float32 expression."""
    return _half_exponentials(x, lambda high, low: high + low)


def sinh(x: Expr) -> Expr:
    """Hyperbolic sine of a scalar float32 expression."""

    def body(x: Expr) -> Expr:
        # the difference of two exponentials cancels near zero
        small = bind(x * x, lambda z: polynomial(z, _SINH) * z * x + x, "sinh_z")
        large = _half_exponentials(x, lambda high, low: high - low)
        return tirx.Select(tirx.abs(x) < constant(1.0), small, large)

    return bind(x, body, "sinh_x")


def _half_exponentials(x: Expr, combine: Callable[[Expr, Expr], Expr]) -> Expr:
    """``combine(e**x / 2, e**-x / 2)``, by squares of ``e**(x/2)``, which overflow no earlier."""

    def squared(x: Expr) -> Expr:
        return bind(exp(x * constant(0.5)), lambda root: constant(0.5) * root * root, "half")

    return bind(x, lambda x: combine(squared(x), squared(constant(0.0) - x)), "halves_x")


def inline_tanh(x: Expr) -> Expr:
    """Hyperbolic tangent without variables, as a rational function; absolute error below 4e-7."""
    within = limited(x, -9.0, 9.0)
    square = within * within
    return within * polynomial(square, _TANH_NUMERATOR) / polynomial(square, _TANH_DENOMINATOR)


def rational_tanh(x: Expr) -> Expr:
    """Hyperbolic tangent as :func:`inline_tanh`, with fewer instructions and with variables."""

    def body(x: Expr) -> Expr:
        return bind(x * x, lambda square: ratio(x, square), "tanh_square")

    def ratio(x: Expr, square: Expr) -> Expr:
        return x * polynomial(square, _TANH_NUMERATOR) / polynomial(square, _TANH_DENOMINATOR)

    return bind(between(x, -9.0, 9.0), body, "tanh_x")


def erf(x: Expr) -> Expr:
    """Error function of a scalar float32 expression."""

    def body(x: Expr) -> Expr:
        return bind(
            x * x,
            lambda z: x * polynomial(z, _ERF_NUMERATOR) / polynomial(z, _ERF_DENOMINATOR),
            "erf_z",
        )

    def bounded(x: Expr) -> Expr:
        above = tirx.Select(x < constant(-4.0), constant(-4.0), x)
        return bind(tirx.Select(above > constant(4.0), constant(4.0), above), body, "erf_x")

    return bind(x, bounded, "erf_in")


def inline_normal(x: Expr) -> Expr:
    """The normal distribution function, ``(1 + erf(x / sqrt 2)) / 2``, without variables.

    The absolute error is below 3e-7. From -5.604 down the result is 0, and from 5.604 up it is 1.
    """
    within = limited(x, -_NORMAL_END, _NORMAL_END)
    square = within * within
    ratio = within * polynomial(square, _NORMAL_NUMERATOR) / polynomial(square, _NORMAL_DENOMINATOR)
    return ratio + literal(0.5, x)


def pow_positive(x: Expr, exponent: float) -> Expr:
    """``x**exponent`` for ``x > 0``, as ``e**(exponent * log x)``."""
    return exp(log(x) * constant(exponent))
