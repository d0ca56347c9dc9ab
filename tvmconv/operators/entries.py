"""Keys of elements, by which they are sorted as numbers, and keys with positions in one number."""

from __future__ import annotations

from typing import Any

from tvmconv.core.stored_types import numpy_type
from tvmconv.tvm_api import tirx

_ALL = 0xFFFFFFFF
_WIDE = ("float64", "int64", "uint64")
_BYTE = 8


def is_wide(dtype: str) -> bool:
    """Whether the keys of elements of a type have 64 bits, and not 32."""
    return dtype in _WIDE


def key_bits(dtype: str) -> int:
    """Bits of a key that differ between elements of a type."""
    if dtype.startswith(("float16", "bfloat")):
        return 32
    return _BYTE if dtype == "bool" else _BYTE * numpy_type(dtype).itemsize


def key_of(value: Any, dtype: str, largest: bool = True) -> Any:
    """A number without sign that is larger for larger elements, or for smaller ones.

    NaN is the largest element. Zeros are equal.
    """
    kind, bits = "uint64" if is_wide(dtype) else "uint32", key_bits(dtype)
    if dtype.startswith("uint") or dtype == "bool":
        key = tirx.Cast(kind, value)
    else:
        signed = kind.removeprefix("u")
        number = tirx.Cast(signed, value) if dtype.startswith("int") else _ordered(value, signed)
        if key_bits(signed) > bits:
            number = number + tirx.const(1 << (bits - 1), signed)
        else:
            # a sum would overflow, and TVM has no constants from 2 ** 63 on
            number = number ^ tirx.const(-(1 << (bits - 1)), signed)
        key = tirx.reinterpret(kind, number)
    if largest:
        return key
    return ~key if bits > 2 * _BYTE else tirx.const((1 << bits) - 1, kind) - key


def _ordered(value: Any, signed: str) -> Any:
    """A whole number in the order of floating-point numbers."""
    dtype, infinity = ("float64", 0x7FF << 52) if signed == "int64" else ("float32", 0xFF << 23)
    value = tirx.Cast(dtype, value)
    bits, width = tirx.reinterpret(signed, value), key_bits(dtype)
    highest = tirx.const((1 << (width - 1)) - 1, signed)
    magnitude = bits & highest
    # the magnitude, or its complement of two: the negative zero is the positive one
    negative = tirx.shift_right(bits, tirx.const(width - 1, signed))
    number = (magnitude ^ negative) - negative
    return tirx.Select(magnitude > tirx.const(infinity, signed), highest, number)


def number_entry(value: Any, position: Any, dtype: str = "float32", largest: bool = True) -> Any:
    """One number for an element: its key of 32 bits, then larger for smaller positions."""
    high = tirx.Cast("uint64", key_of(value, dtype, largest)) * tirx.const(1 << 32, "uint64")
    return high + (tirx.const(_ALL, "uint64") - tirx.Cast("uint64", position))


def position_of(entry: Any) -> Any:
    """The position in a number of :func:`number_entry`."""
    return tirx.Cast("int32", tirx.const(_ALL, "uint32") - tirx.Cast("uint32", entry))


def goes_before(left: Any, right: Any, dtype: Any, largest: bool) -> Any:
    """Whether an element comes before another one that differs from it; NaN counts as largest."""
    ordered = left > right if largest else left < right
    if not str(dtype).startswith(("float", "bfloat")):
        return ordered
    first, second = (left, right) if largest else (right, left)
    return tirx.any(ordered, tirx.all(tirx.isnan(first), tirx.Not(tirx.isnan(second))))
