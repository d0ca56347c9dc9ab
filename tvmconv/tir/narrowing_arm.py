"""Narrowing of 32-bit integers to 8 bits by AArch64's instructions, which saturate.

Two vectors of 32 bits make one of 16 (``sqxtn``, ``sqxtn2``), and two of those one of 8 (for
unsigned results ``sqxtun``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.tir.rewrite import repeated

_MOST = 4
_LANES = 4
_ROUND = "llvm.aarch64.neon.fcvtns"
_TO_16 = "llvm.aarch64.neon.sqxtn.v4i16"
_TO_8 = {"int8": "llvm.aarch64.neon.sqxtn.v8i8", "uint8": "llvm.aarch64.neon.sqxtun.v8i8"}


def packed_by_arm(values: Sequence[Any], limits: Sequence[Any], dtype: str, lanes: int) -> Any:
    """Up to four vectors of int32 as one of 16 bytes; the last stands for those missing."""
    from tvm import tirx

    assert lanes == _LANES, lanes
    low, high, zero_point = (repeated(number) for number in limits)
    values = [*values, *[values[-1]] * (_MOST - len(values))]
    zeros = tirx.Broadcast(zero_point.astype("int16"), 2 * lanes)
    halves = [tirx.call_llvm_pure_intrin("int16x4", _TO_16, value) for value in values]
    bytes_ = []
    for pair in (halves[:2], halves[2:]):
        half = tirx.Shuffle(pair, list(range(2 * lanes)))
        moved = tirx.call_llvm_pure_intrin("int16x8", "llvm.sadd.sat", half, zeros)
        bytes_.append(tirx.call_llvm_pure_intrin("int8x8", _TO_8[dtype], moved))
    both = tirx.Shuffle(bytes_, list(range(_MOST * lanes)))
    result = tirx.reinterpret(f"{dtype}x{_MOST * lanes}", both)
    ends = (tirx.Broadcast((end + zero_point).astype(dtype), _MOST * lanes) for end in (low, high))
    return tirx.min(tirx.max(result, next(ends)), next(ends))


def nearest_of_arm(value: Any) -> Any:
    """float32 to int32, halves to even, by an instruction that saturates."""
    from tvm import tirx

    lanes = int(value.ty.dtype.lanes)
    if lanes == _LANES:
        return tirx.call_llvm_pure_intrin("int32x4", f"{_ROUND}.v4i32.v4f32", value)
    return tirx.Cast(str(value.ty.dtype).replace("float32", "int32"), tirx.nearbyint(value))
