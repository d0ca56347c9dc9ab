"""Dot products of narrow integers as the processor's instructions."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.lane_products import BY_LANES, accumulated_by_lanes, lane_operands
from tvmconv.tir.rewrite import function_pass, repeated
from tvmconv.tir.scalable_dots import SVE, imported, scalable_sdot, takes

# instruction and length of its vectors -> LLVM's name of it
_ACCUMULATING = {
    **{("vpdpbusd", bits): f"llvm.x86.avx512.vpdpbusd.{bits}" for bits in (128, 256, 512)},
    **{("vpdpwssd", bits): f"llvm.x86.avx512.vpdpwssd.{bits}" for bits in (128, 256, 512)},
    ("sdot", 128): "llvm.aarch64.neon.sdot.v4i32.v16i8",
}
# products of bytes, summed in pairs to 16 bits
_MADD_BYTES = {
    128: "llvm.x86.ssse3.pmadd.ub.sw.128",
    256: "llvm.x86.avx2.pmadd.ub.sw",
    512: "llvm.x86.avx512.pmaddubs.w.512",
}
_MADD = {128: "llvm.x86.sse2.pmadd.wd", 256: "llvm.x86.avx2.pmadd.wd"}
_MADD[512] = "llvm.x86.avx512.pmaddw.d.512"
_ELEMENTS = {"vpdpwssd": "int16"} | dict.fromkeys(("vpdpbusd", "sdot", SVE, "vpmaddubsw"), "int8")


def DotProducts() -> Any:
    """A pass that turns the operators of :mod:`tvmconv.operators.products` into instructions.

    Pattern: ``sum + dot(data, weight)`` of int32 or vectors of them, where ``data`` and ``weight``
    are words or pairs of loads, scalar or vectors, whose elements are as many apart as a word has,
    or any other integers of 32 bits; scalars are spread over vectors.

    Of two steps that are joined the second ones follow, and a mask that the data of the first are
    xor-ed with.

    Rewrite: the loads become loads of whole words, and the addition with the dot product one or
    two calls of LLVM's intrinsics.

    Why here: behind VectorizeLoop and the unrolling, whose passes see scalar operators of
    int32; a plain sum of products of 8-bit numbers would become multiplications of 32 bits.
    """
    return function_pass("DotProducts", _dot_products)


def _dot_products(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    from tvmconv.operators.products import (
        JOINED,
        NEGATIVE,
        PAIR,
        SIDE_BY_SIDE,
        WORD,
        instruction_of,
    )

    found = False

    def words(call: Any) -> Any:
        nonlocal found
        name = getattr(call.op, "name", "")
        # words are copied without products, too
        found = found or name == WORD or bool(instruction_of(name))
        if name.startswith(SIDE_BY_SIDE):
            return _side_by_side(call, int(name.removeprefix(SIDE_BY_SIDE)))
        if name not in (WORD, PAIR):
            return call
        return _word(call.args[0], widened=name == PAIR)

    body = tvm_ffi.structural_map(func.body, (ir.Call, lane_operands))
    body = tvm_ffi.structural_map(body, (ir.Call, words))
    if not found:
        return func

    def add(node: Any) -> Any:
        for total, product in ((node.a, node.b), (node.b, node.a)):
            name = instruction_of(getattr(getattr(product, "op", None), "name", ""))
            if name:
                if name.endswith(JOINED):
                    return _joined(total, product.args, name.removesuffix(JOINED))
                data, weight = product.args
                if name in BY_LANES:
                    return accumulated_by_lanes(total, data, weight, name)
                if name.endswith(NEGATIVE):
                    return _difference(total, data, weight, name.removesuffix(NEGATIVE))
                return _accumulated(total, data, weight, name)
        return node

    return imported(func.with_body(tvm_ffi.structural_map(body, (tirx.Add, add))))


def _word(load: Any, widened: bool) -> Any:
    """The 32 bits from a loaded element on, or those of as many elements."""
    from tvm import tirx

    (index,) = load.indices
    element = str(load.source.dtype)
    size = 2 if widened else 32 // int(element.lstrip("uint"))
    lanes, first = 1, index
    if isinstance(index, tirx.Ramp):
        if int(index.stride) != size:
            raise ValueError(f"words of {load.source.name} are {index.stride} elements apart")
        lanes, first = int(index.lanes), index.base
    one = tirx.IntImm(str(first.ty.dtype), 1)
    values = tirx.BufferLoad(load.source, [tirx.Ramp(first, one, size * lanes)])
    if widened:
        values = tirx.Cast(f"int16x{size * lanes}", values)
    return tirx.reinterpret("int32" if lanes == 1 else f"int32x{lanes}", values)


def _side_by_side(call: Any, width: int) -> Any:
    """Words whose elements come from as many vectors: bytes are moved, where there are vectors."""
    from tvm import tirx

    lanes, kind = int(call.ty.dtype.lanes), str(call.ty.dtype)
    values = [_unsigned(value) for value in call.args]
    if all(_is_zero(value) for value in values[1:]):
        return tirx.Cast(kind, values[0])
    if lanes == 1:
        bits = 32 // width
        parts = [tirx.Cast(kind, value) << bits * i for i, value in enumerate(values)]
        return sum(parts[1:], parts[0])
    # what is left out is whatever spares an instruction
    values += values[: width - len(values)]
    order = [i + lanes * row for i in range(lanes) for row in range(width)]
    mixed = tirx.Shuffle(values, [tirx.IntImm("int32", place) for place in order])
    if width == 2:
        mixed = tirx.Cast(f"uint16x{lanes * width}", mixed)
    return tirx.reinterpret(kind, mixed)


def _unsigned(byte: Any) -> Any:
    """The same bits, which fill up a word with zeros."""
    from tvm import tirx

    kind = str(byte.ty.dtype)
    if kind.startswith("u"):
        return byte
    if not _is_zero(byte):
        return tirx.reinterpret(f"u{kind}", byte)
    zero = tirx.const(0, "uint8")
    return tirx.Broadcast(zero, byte.lanes) if isinstance(byte, tirx.Broadcast) else zero


def _is_zero(value: Any) -> bool:
    from tvm import tirx

    scalar = repeated(value)
    return isinstance(scalar, tirx.IntImm) and int(scalar) == 0


def _accumulated(total: Any, data: Any, weight: Any, name: str) -> Any:
    from tvm import tirx

    lanes = int(total.ty.dtype.lanes)
    bits = 32 * lanes
    if name == "vpmaddubsw" and lanes > 1:
        return _less(total, _sums_of_bytes(data, weight))
    if name == SVE and takes(lanes):
        return scalable_sdot(total, data, weight)
    if (name, bits) not in _ACCUMULATING:
        return total + _products(data, weight, name)
    if name == "sdot":
        # of the two, both signed, the last may be one lane
        data, weight = weight, data
    size = 32 // int(_ELEMENTS[name].lstrip("int"))
    narrow = f"{_ELEMENTS[name]}x{size * lanes}"
    return tirx.call_llvm_pure_intrin(
        f"int32x{lanes}",
        _ACCUMULATING[name, bits],
        total,
        tirx.reinterpret(narrow, data),
        tirx.reinterpret(narrow, weight),
    )


def _products(data: Any, weight: Any, name: str) -> Any:
    """Sums of the products of words' elements: by ``vpmaddwd``, or by arithmetic on the words."""
    from tvm import tirx

    lanes = int(data.ty.dtype.lanes)
    if name != "vpmaddwd" or lanes == 1:
        return _arithmetic(data, weight, name)
    operands = (tirx.reinterpret(f"int16x{2 * lanes}", operand) for operand in (data, weight))
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _MADD[32 * lanes], *operands)


def _difference(total: Any, data: Any, weight: Any, name: str) -> Any:
    """``total`` less the products, in this order.

    Of sums, and of differences before instructions are chosen, LLVM would add the products of
    several steps to each other first, which takes registers that the sums are held in. Predicated
    differences become plain ones behind the passes that do so.
    """
    lanes = int(total.ty.dtype.lanes)
    products = _products(data, weight, name)
    if name != "vpmaddwd" or lanes == 1:
        return total - products
    return _less(total, products)


def _joined(total: Any, operands: Any, name: str) -> Any:
    """The sum with the products of two steps, or of the first where the other has no weights."""
    data, weight, *other = operands[:4]
    data = _masked(data, *operands[4:])
    if _is_zero(other[1]):
        return _accumulated(total, data, weight, name)
    if int(total.ty.dtype.lanes) == 1:
        return total + _products(data, weight, name) + _products(other[0], other[1], name)
    return _less(total, _sums_of_bytes(data, weight, *other))


def _sums_of_bytes(*words: Any) -> Any:
    """Sums of the products of four bytes, or of twice four, negative: in 16 bits first."""
    from tvm import tirx

    lanes = int(words[0].ty.dtype.lanes)
    operands = [tirx.reinterpret(f"int8x{4 * lanes}", word) for word in words]
    sums = [
        tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", _MADD_BYTES[32 * lanes], *step)
        for step in zip(operands[::2], operands[1::2], strict=True)
    ]
    pairs = sum(sums[1:], sums[0])
    factor = tirx.Broadcast(tirx.const(-1, "int16"), 2 * lanes)
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _MADD[32 * lanes], pairs, factor)


def _masked(data: Any, mask: Any = 0) -> Any:
    """The data xor-ed with a mask."""
    scalar = repeated(mask)
    return data if getattr(scalar, "value", scalar) == 0 else data ^ mask


def _less(total: Any, products: Any) -> Any:
    """The difference, predicated."""
    from tvm import tirx

    lanes = int(total.ty.dtype.lanes)
    everywhere = tirx.Broadcast(tirx.const(True, "bool"), lanes)
    operands = (total, products, everywhere, tirx.const(lanes, "uint32"))
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", "llvm.vp.sub", *operands)


def _arithmetic(data: Any, weight: Any, name: str) -> Any:
    """The same of scalars, which expressions without a schedule have, and of ``mla``'s vectors."""
    from tvm import tirx

    bits, lanes = int(_ELEMENTS.get(name, "int16").lstrip("int")), int(data.ty.dtype.lanes)

    def number(value: int) -> Any:
        scalar = tirx.const(value, "int32")
        return scalar if lanes == 1 else tirx.Broadcast(scalar, lanes)

    def element(word: Any, position: int, unsigned: bool) -> Any:
        if unsigned:
            return (word >> number(bits * position)) & number(2**bits - 1)
        return (word << number(32 - bits * (position + 1))) >> number(32 - bits)

    products = [
        element(data, i, name in ("vpdpbusd", "vpmaddubsw")) * element(weight, i, False)
        for i in range(32 // bits)
    ]
    return sum(products[1:], products[0])
