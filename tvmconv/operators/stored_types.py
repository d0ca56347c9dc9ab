"""Conversions between numbers and the bits of types that no kernel computes with.

:data:`tvmconv.core.stored_types.STORED` lists the types.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvmconv.core.stored_types import STORED
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor

_MANTISSA, _BIAS, _INFINITY = 23, 127, 0x7F800000  # float32


@dataclass(frozen=True)
class _Format:
    """A floating-point type: digits, exponent bias, and codes without the sign bit.

    ``largest`` is the largest finite number, ``beyond`` what larger ones become without
    saturation. A type with ``one_zero`` has no negative zero; the code is its only NaN.
    """

    mantissa: int
    bias: int
    largest: int
    beyond: int
    nan: int
    one_zero: bool = False


_FORMATS = {
    "bfloat16": _Format(7, 127, 0x7F7F, 0x7F80, 0x7FC0),
    "float8_e4m3fn": _Format(3, 7, 0x7E, 0x7F, 0x7F),
    "float8_e4m3fnuz": _Format(3, 8, 0x7F, 0x80, 0x80, True),
    "float8_e5m2": _Format(2, 15, 0x7B, 0x7C, 0x7E),
    "float8_e5m2fnuz": _Format(2, 16, 0x7F, 0x80, 0x80, True),
    # neither infinities nor NaN
    "float4_e2m1fn": _Format(1, 1, 0x7, 0x7, 0),
}


def encode(data: Tensor, dtype: str, saturate: bool = True, round_mode: str = "up") -> Tensor:
    """The codes of float32 numbers in a floating-point type, or of int32 in a small integer.

    Numbers round to nearest even; ``round_mode`` applies to powers of two, ``float8_e8m0fnu``.
    ``saturate`` says whether 8-bit numbers beyond the largest become the largest. Integers keep
    their low bits.
    """
    stored = STORED[dtype]

    def element(*index: Expr) -> Expr:
        x = data[index]
        if dtype in _FORMATS:
            code = _float_code(x, _FORMATS[dtype], stored.bits, saturate and dtype != "bfloat16")
        elif dtype == "float8_e8m0fnu":
            code = _power_code(x, saturate, round_mode)
        else:
            code = tirx.bitwise_and(x, tirx.const((1 << stored.bits) - 1, "int32"))
        return code.astype(stored.code)

    return te.compute(data.shape, element, name="encoded")


def decode(data: Tensor, dtype: str) -> Tensor:
    """The numbers of codes: bfloat16 as float32, small integers in their wide type."""
    wide, bits = STORED[dtype].wide, STORED[dtype].bits

    def element(*index: Expr) -> Expr:
        if dtype == "bfloat16":
            code = tirx.shift_left(data[index].astype("uint32"), tirx.const(16, "uint32"))
            return tirx.reinterpret(wide, code)
        code = tirx.bitwise_and(data[index].astype("int32"), tirx.const((1 << bits) - 1, "int32"))
        if wide == "int8":
            sign = 1 << (bits - 1)
            code = tirx.bitwise_xor(code, tirx.const(sign, "int32")) - sign
        return code.astype(wide)

    return te.compute(data.shape, element, name="decoded")


def bit_cast(data: Tensor, dtype: str) -> Tensor:
    """The same bits as another type of the same size."""
    booleans = "bool" in (str(data.dtype), dtype)

    def element(*index: Expr) -> Expr:
        x = data[index]
        if booleans:
            # a byte of 0 or 1
            return x.astype(dtype) if dtype != "bool" else x != tirx.const(0, str(data.dtype))
        return tirx.reinterpret(dtype, x)

    return te.compute(data.shape, element, name="bit_cast")


def _number(value: int) -> Expr:
    return tirx.const(value, "uint32")


def _choose(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    return tirx.Select(condition, then, otherwise)


def _float_code(x: Expr, to: _Format, bits: int, saturate: bool) -> Expr:
    word = tirx.reinterpret("uint32", x)
    magnitude = tirx.bitwise_and(word, _number(0x7FFFFFFF))
    shift = _MANTISSA - to.mantissa
    last = tirx.bitwise_and(tirx.shift_right(magnitude, _number(shift)), _number(1))
    rounded = tirx.shift_right(magnitude + _number((1 << (shift - 1)) - 1) + last, _number(shift))
    code = rounded
    if to.bias != _BIAS:
        smallest = (_BIAS - to.bias + 1) << _MANTISSA
        # multiples of the smallest number; the product with a power of two is exact
        scale = tirx.const(2.0 ** (to.bias - 1 + to.mantissa), "float32")
        near = tirx.min(
            tirx.reinterpret("float32", magnitude) * scale, tirx.const(256.0, "float32")
        )
        multiple = tirx.nearbyint(near).astype("uint32")
        normal = rounded - _number((_BIAS - to.bias) << to.mantissa)
        code = _choose(magnitude < _number(smallest), multiple, normal)
    beyond = to.largest if saturate else to.beyond
    code = _choose(code > _number(to.largest), _number(beyond), code)
    code = _choose(magnitude > _number(_INFINITY), _number(to.nan), code)
    sign = tirx.shift_left(tirx.shift_right(word, _number(31)), _number(bits - 1))
    if to.one_zero:
        sign = _choose(code == _number(0), _number(0), sign)
    return tirx.bitwise_or(code, sign)


def _power_code(x: Expr, saturate: bool, round_mode: str) -> Expr:
    """The exponent of a float32 number, rounded."""
    word = tirx.reinterpret("uint32", x)
    exponent = tirx.bitwise_and(tirx.shift_right(word, _number(_MANTISSA)), _number(0xFF))
    fraction = tirx.bitwise_and(word, _number((1 << _MANTISSA) - 1))
    half = 1 << (_MANTISSA - 1)
    if round_mode == "down":
        grown = exponent
    else:
        if round_mode == "up":
            more = _choose(fraction > _number(0), _number(1), _number(0))
        else:
            # ties go up, except from the smallest power
            above = _choose(fraction > _number(half), _number(1), _number(0))
            tie = _choose(exponent > _number(0), _number(1), _number(0))
            more = _choose(fraction == _number(half), tie, above)
        grown = exponent + more
    grown = tirx.min(grown, _number(0xFE if saturate else 0xFF))
    return _choose(exponent == _number(0xFF), _number(0xFF), grown)
