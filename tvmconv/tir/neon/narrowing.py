"""Conversion of int32 vectors to 8 bits by AArch64's saturating instructions.

Two int32 vectors become one of 16 bits (``sqxtn``, ``sqxtn2``). Two of those become one of 8 bits
(``sqxtun`` for unsigned results).

Some cores convert FP32 at a quarter of their rate of additions. For them, FP32 is rounded by adding
1.5 * 2**23, whose last bit has the value 1. The bits of the sum are the bits of that constant plus
the integer, rounded to nearest even.

This is exact below 2**22 in magnitude. Larger values saturate correctly: the saturated difference
of the bits has the sign of the rounded value, and is at least 2**22 in magnitude. Narrowing to 16
bits then saturates it. The difference includes the zero point, whose 8 bits change neither the sign
nor the saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmconv.operators.math import COUNTS_IN_ONES
from tvmconv.operators.narrow import NEAREST
from tvmconv.tir.general.narrowing import MOST, Forms, narrowing_pass, whole
from tvmconv.tir.neon.fixed_point import scaled

# the bits of COUNTS_IN_ONES
_ONES_BITS = 0x4B400000
_LANES = 4
_ROUND = "llvm.aarch64.neon.fcvtns"
_FENCE = "llvm.arithmetic.fence"
_TO_16 = "llvm.aarch64.neon.sqxtn.v4i16"
_TO_8 = {"int8": "llvm.aarch64.neon.sqxtn.v8i8", "uint8": "llvm.aarch64.neon.sqxtun.v8i8"}


def Narrowing(rounds_by_adding: bool) -> Any:
    """A pass that narrows int32 with ``sqxtn`` and ``sqxtun``.

    Pattern: as :func:`tvmconv.tir.x86.narrowing.Narrowing`, for vectors of four int32.

    Rewrite: one store of one vector. With ``rounds_by_adding``, FP32 is rounded by additions.

    Why here: stores of a tile follow each other once loops are unrolled and vectorized.
    """
    forms = Forms(
        nearest=_nearest,
        scaled=scaled,
        whole=_whole_by_adding if rounds_by_adding else whole,
        packed=_packed,
        lanes=(_LANES,),
        rounds_late=rounds_by_adding,
    )
    return narrowing_pass("neon.Narrowing", forms)


def _packed(values: Sequence[Any], zero_point: Any, dtype: str, lanes: int) -> Any:
    """Four vectors of int32 as one of 16 bytes."""
    zeros = tirx.Broadcast(zero_point.astype("int16"), 2 * lanes)
    added = all(_is_nearest(value) for value in values)
    if added:
        values = [_counted(value.args[0], zero_point) for value in values]
    halves = [tirx.call_llvm_pure_intrin("int16x4", _TO_16, value) for value in values]
    bytes_ = []
    for pair in (halves[:2], halves[2:]):
        half = tirx.Shuffle(pair, list(range(2 * lanes)))
        if not added:
            half = tirx.call_llvm_pure_intrin("int16x8", "llvm.sadd.sat", half, zeros)
        bytes_.append(tirx.call_llvm_pure_intrin("int8x8", _TO_8[dtype], half))
    both = tirx.Shuffle(bytes_, list(range(MOST * lanes)))
    return tirx.reinterpret(f"{dtype}x{MOST * lanes}", both)


def _is_nearest(value: Any) -> bool:
    """Whether a value is a call of :func:`~tvmconv.operators.narrow.nearest`."""
    return str(getattr(getattr(value, "op", None), "name", "")) == NEAREST


def _counted(value: Any, zero_point: Any) -> Any:
    """The nearest int32 to FP32 plus the zero point, by additions."""
    bits = tirx.reinterpret("int32x4", _in_ones(value)[0])
    first = tirx.const(_ONES_BITS, "int32") - zero_point.astype("int32")
    return tirx.call_llvm_pure_intrin(
        "int32x4", "llvm.ssub.sat", bits, tirx.Broadcast(first, _LANES)
    )


def _whole_by_adding(value: Any) -> Any:
    """FP32 rounded to an integer, ties to even.

    Values beyond 2**22 in magnitude become multiples of more than 1, far beyond 8 bits as before.
    """
    total, ones = _in_ones(value)
    return tirx.Sub(total, ones)


def _in_ones(value: Any) -> tuple[Any, Any]:
    """FP32 plus 1.5 * 2**23, and that constant, in vectors of any length."""
    kind = str(value.ty.dtype)
    lanes = int(value.ty.dtype.lanes)
    ones = tirx.const(COUNTS_IN_ONES, "float32")
    ones = ones if lanes == 1 else tirx.Broadcast(ones, lanes)
    # prevents an FMA, which would round a product and this sum only once
    fenced = tirx.call_llvm_pure_intrin(kind, _FENCE, value)
    return tirx.Add(fenced, ones), ones


def _nearest(value: Any) -> Any:
    """FP32 to int32, ties to even, by a saturating instruction."""
    lanes = int(value.ty.dtype.lanes)
    if lanes == _LANES:
        return tirx.call_llvm_pure_intrin("int32x4", f"{_ROUND}.v4i32.v4f32", value)
    return tirx.Cast(str(value.ty.dtype).replace("float32", "int32"), tirx.nearbyint(value))
