"""What products of 8-bit matrices are made of: vectors of words, and the instruction."""

from __future__ import annotations

from typing import Any

# sums of a vector, pixels and outputs of a product
LANES = 4
# bytes of a word, and of an item of data: two words of channel blocks that lie side by side
_WORD, _ITEM = 8, 4
ITEMS = _WORD // _ITEM
_INTRINSIC = "llvm.aarch64.neon.smmla.v4i32.v16i8"


def product(total: Any, pixels: Any, outputs: Any) -> Any:
    """Four sums, and what the instruction adds to them: a square of pixels by outputs."""
    from tvm import tirx

    bytes_ = (tirx.reinterpret("int8x16", operand) for operand in (pixels, outputs))
    return tirx.call_llvm_pure_intrin("int32x4", _INTRINSIC, total, *bytes_)


def items(load: Any, count: int) -> Any:
    """So many items of data from a loaded one on."""
    from tvm import tirx

    (index,) = load.indices
    return tirx.BufferLoad(load.source, [tirx.Ramp(index, _one(index), count)])


def outputs(load: Any, half: int) -> Any:
    """The words of the first two or the last two outputs of a block."""
    from tvm import tirx

    base, size = load.indices[0].base, 2 * _WORD
    begin = base + tirx.IntImm(str(base.ty.dtype), size * half)
    return tirx.BufferLoad(load.source, [tirx.Ramp(begin, _one(base), size)])


def arithmetic(data: Any, weight: Any) -> Any:
    """The same of scalars."""
    from tvm import tirx

    def item(load: Any, distance: int) -> Any:
        (index,) = load.indices
        place = index + tirx.IntImm(str(index.ty.dtype), distance)
        return tirx.Cast("int32", tirx.BufferLoad(load.source, [place]))

    products = []
    for place in range(_WORD):
        byte = item(data, place // _ITEM) << 8 * (_ITEM - 1 - place % _ITEM) >> 8 * (_ITEM - 1)
        products.append(byte * item(weight, place))
    return sum(products[1:], products[0])


def _one(index: Any) -> Any:
    from tvm import tirx

    return tirx.IntImm(str(index.ty.dtype), 1)
