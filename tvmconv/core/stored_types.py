"""Element types that tensors are stored in and no kernel computes with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class StoredType:
    """How a type is stored and computed.

    Attributes
    ----------
    code
        The integers that kernels read and write in place of the type.
    wide
        The type of values between operators. It holds every value of the stored type.
    bits
        Bits of a value, at the low end of the code.
    """

    code: str
    wide: str
    bits: int


# name in numpy (ml_dtypes) -> form; integers of 2 and 4 bits take a byte each, as in numpy
STORED: dict[str, StoredType] = {
    "bfloat16": StoredType("uint16", "float32", 16),
    "float8_e4m3fn": StoredType("uint8", "float32", 8),
    "float8_e4m3fnuz": StoredType("uint8", "float32", 8),
    "float8_e5m2": StoredType("uint8", "float32", 8),
    "float8_e5m2fnuz": StoredType("uint8", "float32", 8),
    "float8_e8m0fnu": StoredType("uint8", "float32", 8),
    "float4_e2m1fn": StoredType("uint8", "float32", 4),
    "int4": StoredType("uint8", "int8", 4),
    "uint4": StoredType("uint8", "uint8", 4),
    "int2": StoredType("uint8", "int8", 2),
    "uint2": StoredType("uint8", "uint8", 2),
}
SMALL_INTEGERS = ("int4", "uint4", "int2", "uint2")

# the largest finite number of each short floating-point type
LARGEST = {
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 2.0**127,
    "float4_e2m1fn": 6.0,
}


def integer_limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest value of an integer type."""
    if dtype not in STORED:
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max)
    count = 1 << STORED[dtype].bits
    return (0, count - 1) if dtype.startswith("u") else (-count // 2, count // 2 - 1)


def code_type(dtype: str) -> str:
    """The type that kernels read and write for a type; itself for types that they compute with."""
    return STORED[dtype].code if dtype in STORED else dtype


def wide_type(dtype: str) -> str:
    """The type in which values of a type are computed between operators."""
    return "float32" if dtype == "float16" else STORED[dtype].wide if dtype in STORED else dtype


def numpy_type(name: str) -> np.dtype[Any]:
    """numpy's type; ml_dtypes defines bfloat16 and all types of less than 8 bits."""
    if name not in STORED:
        return np.dtype(name)
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found
