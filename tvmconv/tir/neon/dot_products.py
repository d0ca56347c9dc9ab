"""Dot products of narrow integers as NEON instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvmconv.tir.general.dot_products import arithmetic, dot_product_pass
from tvmconv.tir.neon.lane_products import BY_LANES, accumulated_by_lanes, lane_operands

_SDOT = "llvm.aarch64.neon.sdot.v4i32.v16i8"
_LANES = 4


def DotProducts() -> Any:
    """A pass that writes dot products with ``sdot``, ``smull`` and ``smlal``.

    Pattern: ``accumulator + dot(data, weight)`` of int32 or vectors of them; see
    :func:`tvmconv.tir.x86.dot_products.DotProducts`.

    Rewrite: the loads become loads of whole dwords, and the addition with the dot product calls of
    LLVM's intrinsics. Other vector lengths and scalars are plain arithmetic.

    Why here: after the passes that look for neighboring dwords, which know the operators.
    """
    return dot_product_pass("neon.DotProducts", _emit, lane_operands)


def _emit(total: Any, operands: Sequence[Any], name: str) -> Any:
    from tvm import tirx

    data, weight = operands
    if name in BY_LANES:
        return accumulated_by_lanes(total, data, weight, name)
    if name != "sdot":
        return None
    if int(total.ty.dtype.lanes) != _LANES:
        return total + arithmetic(data, weight, 8)
    # both are signed; the instruction's last operand may be one lane, which the data are
    bytes_ = (tirx.reinterpret("int8x16", operand) for operand in (weight, data))
    return tirx.call_llvm_pure_intrin("int32x4", _SDOT, total, *bytes_)
