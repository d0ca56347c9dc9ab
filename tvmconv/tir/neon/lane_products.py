"""Products of narrow integers of AArch64 without dot products: by halves of vectors and by lanes.

``smull``, ``smlal`` and ``sadalp`` multiply 8-bit integers. A word is four channels; a vector of
weights holds the first two channels of four outputs, then the other two
(:func:`tvmconv.algorithms.integer.dwords.arranged`). Both halves of the data's word are spread over
vectors::

    smull   v0.8h, v1.8b,  v2.8b        channels 0 and 1
    smlal2  v0.8h, v1.16b, v3.16b       and 2 and 3, in 16 bits, which hold two products
    sadalp  v16.4s, v0.8h               both channels of each output

``smlal v16.4s, v1.4h, v2.h[0]`` multiplies 16-bit integers by one lane.

Sums are added by ``llvm.vp.add``, an addition once instructions are chosen: of plain ones LLVM
would add the products of several steps to each other first, which takes registers that the sums
are held in.
"""

from __future__ import annotations

from typing import Any

BY_LANES = ("smull", "smlal")
_LANES = 4


def lane_operands(call: Any) -> Any:
    """Dot products of one 16-bit integer, with their words as what they are: such integers."""
    import tvm_ffi
    from tvm import ir, tirx

    from tvmconv.operators.products import WORD, instruction_of

    name = instruction_of(getattr(call.op, "name", ""))
    if name != "smlal":
        return call

    def element(word: Any) -> Any:
        return word.args[0] if getattr(word.op, "name", "") == WORD else word

    # what stands around a word has the type of what it stands around
    def narrow(operand: Any) -> Any:
        if isinstance(operand, tirx.Broadcast):
            return tirx.Broadcast(narrow(operand.value), operand.lanes)
        if isinstance(operand, tirx.Shuffle):
            return tirx.Shuffle([narrow(v) for v in operand.vectors], operand.indices)
        return tvm_ffi.structural_map(operand, (ir.Call, element))

    return tirx.call_intrin(str(call.ty.dtype), call.op.name, *map(narrow, call.args))


def accumulated_by_lanes(total: Any, data: Any, weight: Any, name: str) -> Any:
    """``total`` and the products of data by weights.

    Raises
    ------
    ValueError
        If ``smull`` has other vectors than those of four words, whose order weights are packed in.
    """
    from tvm import tirx

    lanes = int(total.ty.dtype.lanes)
    if name == "smlal":
        if lanes != _LANES:
            return total + _widened(data, lanes) * _widened(weight, lanes)
        product = tirx.call_llvm_pure_intrin(
            "int32x4", "llvm.aarch64.neon.smull.v4i32", weight, data
        )
        return added(total, product)
    if lanes != _LANES:
        raise ValueError(f"smull multiplies vectors of {_LANES} words, not of {lanes}")
    weights = tirx.reinterpret("int8x16", weight)
    first, second = _spread_halves(data)
    products = [
        tirx.call_llvm_pure_intrin(
            "int16x8", "llvm.aarch64.neon.smull.v8i16", half(weights, i), half(factor, i)
        )
        for i, factor in enumerate((first, second))
    ]
    pairs = tirx.call_llvm_pure_intrin(
        "int32x4", "llvm.aarch64.neon.saddlp.v4i32.v8i16", products[0] + products[1]
    )
    return added(total, pairs)


def added(total: Any, product: Any) -> Any:
    """The sum of two vectors, in the order in which it is written."""
    from tvm import tirx

    everywhere = tirx.Broadcast(tirx.const(True, "bool"), _LANES)
    count = tirx.const(_LANES, "uint32")
    return tirx.call_llvm_pure_intrin("int32x4", "llvm.vp.add", total, product, everywhere, count)


def _spread_halves(data: Any) -> tuple[Any, Any]:
    """Both halves of a word, each in all pairs of a vector of bytes."""
    from tvm import tirx

    source, lane = data, 0
    if isinstance(data, tirx.Shuffle) and len(data.vectors) == 1:
        source, lane = data.vectors[0], int(data.indices[0])
    count = 2 * int(source.ty.dtype.lanes)
    halves = tirx.reinterpret(f"int16x{count}", source)
    first, second = (tirx.Shuffle([halves], [2 * lane + i] * 8) for i in range(2))
    return tirx.reinterpret("int8x16", first), tirx.reinterpret("int8x16", second)


def half(vector: Any, index: int) -> Any:
    """The lower or the upper eight bytes."""
    from tvm import tirx

    return tirx.Shuffle([vector], [8 * index + i for i in range(8)])


def _widened(value: Any, lanes: int) -> Any:
    from tvm import tirx

    return tirx.Cast("int32" if lanes == 1 else f"int32x{lanes}", value)
