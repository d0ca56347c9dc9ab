"""INT8 products on AArch64 without dot-product instructions: widening, or by lane.

``smull``, ``smlal`` and ``sadalp`` multiply 8-bit integers. A dword packs four channels. A vector
of weights has the first two channels of four outputs, then the other two
(:func:`tvmconv.algorithms.integer.dwords.arranged`). Both pairs of the data's channels are
broadcast to vectors::

    smull   v0.8h, v1.8b,  v2.8b        channels 0 and 1
    smlal2  v0.8h, v1.16b, v3.16b       and 2 and 3; 16 bits hold the sum of two products
    sadalp  v16.4s, v0.8h               both channels of each output

``smlal v16.4s, v1.4h, v2.h[0]`` multiplies 16-bit integers by one lane.

Accumulations use ``llvm.vp.add``, which becomes an addition at instruction selection. LLVM would
reassociate plain additions: it adds the products of several steps first, which takes registers from
the accumulators.
"""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.operators.products import WORD, instruction_of

BY_LANES = ("smull", "smlal")
_LANES = 4


def lane_operands(call: Any) -> Any:
    """Dot products of one 16-bit integer, with that integer as their operand."""
    name = instruction_of(getattr(call.op, "name", ""))
    if name != "smlal":
        return call

    def element(dword: Any) -> Any:
        return dword.args[0] if getattr(dword.op, "name", "") == WORD else dword

    # a broadcast or shuffle of a dword gets the type of its element
    def narrow(operand: Any) -> Any:
        if isinstance(operand, tirx.Broadcast):
            return tirx.Broadcast(narrow(operand.value), operand.lanes)
        if isinstance(operand, tirx.Shuffle):
            return tirx.Shuffle([narrow(v) for v in operand.vectors], operand.indices)
        return tvm_ffi.structural_map(operand, (ir.Call, element))

    return tirx.call_intrin(str(call.ty.dtype), call.op.name, *map(narrow, call.args))


def accumulated_by_lanes(total: Any, data: Any, weight: Any, name: str) -> Any:
    """``total`` plus the products of data and weights.

    Raises ``ValueError`` if ``smull`` is used for other vectors than four dwords, for which weights
    are packed.
    """
    lanes = int(total.ty.dtype.lanes)
    if name == "smlal":
        if lanes != _LANES:
            return total + _widened(data, lanes) * _widened(weight, lanes)
        product = tirx.call_llvm_pure_intrin(
            "int32x4", "llvm.aarch64.neon.smull.v4i32", weight, data
        )
        return added(total, product)
    if lanes != _LANES:
        raise ValueError(
            f"cannot lower smull: the vector has {lanes} dwords. Expected {_LANES}. "
            "Use blocks of 4 channels in the schedule."
        )
    weights = tirx.reinterpret("int8x16", weight)
    first, second = _spread_pairs(data)
    products = [
        tirx.call_llvm_pure_intrin(
            "int16x8", "llvm.aarch64.neon.smull.v8i16", half(weights, i), half(factor, i)
        )
        for i, factor in enumerate((first, second))
    ]
    sums = tirx.call_llvm_pure_intrin(
        "int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", products[0] + products[1]
    )
    return added(total, sums)


def added(total: Any, product: Any) -> Any:
    """The sum of two vectors, which LLVM does not reassociate."""
    everywhere = tirx.Broadcast(tirx.const(True, "bool"), _LANES)
    count = tirx.const(_LANES, "uint32")
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.vp.add", total, product, everywhere, count)


def _spread_pairs(data: Any) -> tuple[Any, Any]:
    """The lower and the upper 16 bits of a dword, each broadcast to a vector of bytes."""
    source, lane = data, 0
    if isinstance(data, tirx.Shuffle) and len(data.vectors) == 1:
        source, lane = data.vectors[0], int(data.indices[0])
    count = 2 * int(source.ty.dtype.lanes)
    shorts = tirx.reinterpret(f"int16x{count}", source)
    first, second = (tirx.Shuffle([shorts], [2 * lane + i] * 8) for i in range(2))
    return tirx.reinterpret("int8x16", first), tirx.reinterpret("int8x16", second)


def half(vector: Any, index: int) -> Any:
    """The lower or the upper eight bytes."""
    return tirx.Shuffle([vector], [8 * index + i for i in range(8)])


def _widened(value: Any, lanes: int) -> Any:
    return tirx.Cast("int32" if lanes == 1 else f"int32x{lanes}", value)
