"""Dot products of narrow integers as NEON instructions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx

from tvmconv.tir.general.dot_products import arithmetic, dot_product_pass
from tvmconv.tir.neon.lane_products import BY_LANES, accumulated_by_lanes, lane_operands

_SDOT = "llvm.aarch64.neon.sdot.v4i32.v16i8"
_LANES = 4


def DotProducts() -> Any:
    """A pass that lowers dot products to ``sdot``, ``smull`` and ``smlal``.

    Pattern: ``accumulator + dot(data, weight)`` of int32 or vectors of them; see
    :func:`tvmconv.tir.x86.dot_products.DotProducts`.

    Rewrite: loads become loads of whole dwords. Each accumulation becomes a call of LLVM's
    intrinsics. Other vector lengths and scalars become plain arithmetic.

    Why here: after the passes that vectorize loads of neighboring dwords, which match the
    operators.
    """
    return dot_product_pass("neon.DotProducts", _emit, lane_operands)


def _emit(total: Any, operands: Sequence[Any], name: str) -> Any:
    data, weight = operands
    if name in BY_LANES:
        return accumulated_by_lanes(total, data, weight, name)
    if name != "sdot":
        return None
    if int(total.ty.dtype.lanes) != _LANES:
        return total + arithmetic(data, weight, 8)
    # both operands are signed; the data come last, because that operand may be one lane
    bytes_ = (tirx.reinterpret("int8x16", operand) for operand in (weight, data))
    return tirx.call_llvm_pure_intrin("int32x4", _SDOT, total, *bytes_)
