"""Operands of INT8 matrix products: vectors of 64-bit rows, and the instruction."""

from __future__ import annotations

from typing import Any

from tvm import tirx

# accumulators of a vector; positions and outputs of a product
LANES = 4
# bytes of a 64-bit row, and of an item: half a row of data, as int32
_ROW, _ITEM = 8, 4
ITEMS = _ROW // _ITEM
_INTRINSIC = "llvm.aarch64.neon.smmla.v4i32.v16i8"


def product(total: Any, pixels: Any, outputs: Any) -> Any:
    """Four accumulators plus a 2x2 square of products, positions by outputs."""
    bytes_ = (tirx.reinterpret("int8x16", operand) for operand in (pixels, outputs))
    return tirx.call_llvm_pure_intrin("int32x4", _INTRINSIC, total, *bytes_)


def items(load: Any, count: int) -> Any:
    """Consecutive items of data, from a loaded one on."""
    (index,) = load.indices
    return tirx.BufferLoad(load.source, [tirx.Ramp(index, _one(index), count)])


def outputs(load: Any, half: int) -> Any:
    """The rows of the first two or the last two outputs of a block."""
    base, size = load.indices[0].base, 2 * _ROW
    begin = base + tirx.IntImm(str(base.ty.dtype), size * half)
    return tirx.BufferLoad(load.source, [tirx.Ramp(begin, _one(base), size)])


def arithmetic(data: Any, weight: Any) -> Any:
    """The dot product of scalars in plain arithmetic."""

    def item(load: Any, distance: int) -> Any:
        (index,) = load.indices
        place = index + tirx.IntImm(str(index.ty.dtype), distance)
        return tirx.Cast("int32", tirx.BufferLoad(load.source, [place]))

    products = []
    for place in range(_ROW):
        byte = item(data, place // _ITEM) << 8 * (_ITEM - 1 - place % _ITEM) >> 8 * (_ITEM - 1)
        products.append(byte * item(weight, place))
    return sum(products[1:], products[0])


def _one(index: Any) -> Any:
    return tirx.IntImm(str(index.ty.dtype), 1)
