"""Fixed-point products of 32-bit integers with NEON instructions."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.fixed_point import scaled as scaled_generally
from tvmconv.tir.general.fixed_point import spread

_DOUBLED_HIGH = "llvm.aarch64.neon.sqdmulh.v4i32"
_SHIFTED = "llvm.aarch64.neon.srshl.v4i32"
_LANES = 4


def scaled(whole: Any, multiplier: Any, shift: Any) -> Any:
    """Fixed-point product by AArch64's ``sqdmulh`` and ``srshl``.

    ``sqdmulh`` returns the high half of the doubled product, so the shift is larger by one bit.
    ``srshl`` shifts with rounding.
    """
    if int(whole.ty.dtype.lanes) != _LANES:
        return scaled_generally(whole, multiplier, shift)
    high = tirx.call_llvm_pure_intrin("int32x4", _DOUBLED_HIGH, whole, multiplier)
    right = spread(-1, "int32", _LANES) - shift
    return tirx.call_llvm_pure_intrin("int32x4", _SHIFTED, high, right)
