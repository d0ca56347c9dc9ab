"""Vectors of 32-bit integers narrowed to 8 bits by x86's packing instructions, which saturate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.tir.general.fixed_point import scaled
from tvmconv.tir.general.narrowing import MOST, Forms, narrowing_pass, nearest, whole
from tvmconv.tir.general.rewrite import repeated

# of 16 bytes each; packing instructions work within them
_LANE = 16
_ROUND = {4: "llvm.x86.sse2.cvtps2dq", 8: "llvm.x86.avx.cvt.ps2dq.256"}
_ROUND_512 = "llvm.x86.avx512.mask.cvtps2dq.512"
# lanes of 32 bits -> packing of int32 to int16, and of int16 to each type of 8 bits
_PACK = {
    4: ("llvm.x86.sse2.packssdw.128", "llvm.x86.sse2.pack{}wb.128"),
    8: ("llvm.x86.avx2.packssdw", "llvm.x86.avx2.pack{}wb"),
    16: ("llvm.x86.avx512.packssdw.512", "llvm.x86.avx512.pack{}wb.512"),
}
_SIGNS = {"uint8": "us", "int8": "ss"}


def Narrowing() -> Any:
    """A pass that narrows 32-bit integers with ``vpackssdw``, ``vpackuswb`` and ``vpacksswb``.

    Pattern: one to four stores of one vector of narrowed 32-bit integers each, one after the other,
    to places that follow each other in a buffer; the bounds and the zero point are the same.

    Rewrite: one store of one vector. Its integers are packed to 16 bits with saturation, the zero
    point is added with saturation, they are packed to 8 bits with saturation, and clipped by the
    bounds. The result is the same as with bounds first, since all steps keep the order of numbers
    and saturate at numbers beyond the bounds of 8 bits.

    Why here: stores of a tile follow each other once loops are unrolled and vectorized.
    """
    forms = Forms(nearest=_nearest, scaled=scaled, whole=whole, packed=_packed, lanes=tuple(_PACK))
    return narrowing_pass("x86.Narrowing", forms)


def _packed(values: Sequence[Any], limits: Sequence[Any], dtype: str, lanes: int) -> Any:
    """Four vectors of int32 as one of 8 bits; the last stands for those missing."""
    from tvm import tirx

    low, high, zero_point = (repeated(number) for number in limits)
    to_16, to_8 = _PACK[lanes]
    to_8 = to_8.format(_SIGNS[dtype])
    values = [*values, *[values[-1]] * (MOST - len(values))]
    halves = []
    zeros = tirx.Broadcast(zero_point.astype("int16"), 2 * lanes)
    for pair in (values[:2], values[2:]):
        half = tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", to_16, *pair)
        halves.append(
            tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", "llvm.sadd.sat", half, zeros)
        )
    bytes_ = tirx.call_llvm_pure_intrin(f"int8x{MOST * lanes}", to_8, *halves)
    count = lanes * 4 // _LANE
    # lane by lane as packed; 32 bits of each vector in each
    words = tirx.reinterpret(f"int32x{lanes}", bytes_)
    order = [part * MOST + vector for vector in range(MOST) for part in range(count)]
    ordered = tirx.Shuffle([words], order) if count > 1 else words
    result = tirx.reinterpret(f"{dtype}x{MOST * lanes}", ordered)
    ends = (tirx.Broadcast((end + zero_point).astype(dtype), MOST * lanes) for end in (low, high))
    return tirx.min(tirx.max(result, next(ends)), next(ends))


def _nearest(value: Any) -> Any:
    """float32 to int32 as the processor rounds, halves to even."""
    from tvm import tirx

    lanes = int(value.ty.dtype.lanes)
    if lanes == 16:
        blank = tirx.Broadcast(tirx.const(0, "int32"), lanes)
        rest = (blank, tirx.const(-1, "int16"), tirx.const(4, "int32"))
        return tirx.call_llvm_pure_intrin("int32x16", _ROUND_512, value, *rest)
    if lanes in _ROUND:
        return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _ROUND[lanes], value)
    return nearest(value)
