"""Conversion of int32 vectors to 8 bits by x86's saturating pack instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmconv.tir.general.fixed_point import scaled
from tvmconv.tir.general.narrowing import MOST, Forms, narrowing_pass, nearest, whole

# bytes of a register lane; pack instructions work within lanes
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
    """A pass that narrows int32 with ``vpackssdw``, ``vpackuswb`` and ``vpacksswb``.

    Pattern: one to four consecutive stores of vectors of narrowed int32, to contiguous addresses of
    a buffer, with the same bounds and zero point.

    Rewrite: one store of one vector. Integers are packed to 16 bits, the zero point is added, and
    the sums are packed to 8 bits, each step with saturation. The bounds clip the result. All steps
    are monotonic and saturate beyond the bounds of 8 bits, so that the order of clipping does not
    matter.

    Why here: stores of a tile follow each other once loops are unrolled and vectorized.
    """
    forms = Forms(nearest=_nearest, scaled=scaled, whole=whole, packed=_packed, lanes=tuple(_PACK))
    return narrowing_pass("x86.Narrowing", forms)


def _packed(values: Sequence[Any], zero_point: Any, dtype: str, lanes: int) -> Any:
    """Four vectors of int32 as one of 8 bits."""
    to_16, to_8 = _PACK[lanes]
    to_8 = to_8.format(_SIGNS[dtype])
    packed_16 = []
    zeros = tirx.Broadcast(zero_point.astype("int16"), 2 * lanes)
    for pair in (values[:2], values[2:]):
        half = tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", to_16, *pair)
        packed_16.append(
            tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", "llvm.sadd.sat", half, zeros)
        )
    bytes_ = tirx.call_llvm_pure_intrin(f"int8x{MOST * lanes}", to_8, *packed_16)
    count = lanes * 4 // _LANE
    # packing interleaves vectors by lane: each lane has 32 bits of each vector
    dwords = tirx.reinterpret(f"int32x{lanes}", bytes_)
    order = [part * MOST + vector for vector in range(MOST) for part in range(count)]
    ordered = tirx.Shuffle([dwords], order) if count > 1 else dwords
    return tirx.reinterpret(f"{dtype}x{MOST * lanes}", ordered)


def _nearest(value: Any) -> Any:
    """FP32 to int32 in the CPU's rounding mode, ties to even."""
    lanes = int(value.ty.dtype.lanes)
    if lanes == 16:
        blank = tirx.Broadcast(tirx.const(0, "int32"), lanes)
        rest = (blank, tirx.const(-1, "int16"), tirx.const(4, "int32"))
        return tirx.call_llvm_pure_intrin("int32x16", _ROUND_512, value, *rest)
    if lanes in _ROUND:
        return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _ROUND[lanes], value)
    return nearest(value)
