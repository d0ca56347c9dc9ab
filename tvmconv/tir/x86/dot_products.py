"""Dot products of narrow numbers as instructions of AVX2, AVX-512, VNNI and AVX512_BF16."""

from __future__ import annotations

from collections.abc import Sequence
from string import Template
from typing import Any

from tvm import tirx

from tvmconv.operators.products import JOINED, NEGATIVE
from tvmconv.tir.general.dot_products import arithmetic, dot_product_pass, is_zero
from tvmconv.tir.general.llvm_functions import called, importing
from tvmconv.tir.general.rewrite import repeated

# instruction and bits of its vectors -> LLVM's intrinsic
_ACCUMULATING = {
    (name, bits): f"llvm.x86.avx512.{name}.{bits}"
    for name in ("vpdpbusd", "vpdpwssd")
    for bits in (128, 256, 512)
}
# products of unsigned by signed bytes, adjacent ones added with saturation to 16 bits
_MADD_BYTES = {
    128: "llvm.x86.ssse3.pmadd.ub.sw.128",
    256: "llvm.x86.avx2.pmadd.ub.sw",
    512: "llvm.x86.avx512.pmaddubs.w.512",
}
_MADD = {
    128: "llvm.x86.sse2.pmadd.wd",
    256: "llvm.x86.avx2.pmadd.wd",
    512: "llvm.x86.avx512.pmaddw.d.512",
}
# TVM has no vectors of bfloat16 for LLVM's intrinsic
_BF16, _BF16_NAME = "vdpbf16ps", "tvmconv.vdpbf16ps_"
_BF16_FUNCTION = Template("""
declare <$n x float> @llvm.x86.avx512bf16.dpbf16ps.$bits(
  <$n x float>, <$pairs x bfloat>, <$pairs x bfloat>)
define <$n x float> @$name(<$n x float> %sum, <$n x i32> %first, <$n x i32> %second) {
  %a = bitcast <$n x i32> %first to <$pairs x bfloat>
  %b = bitcast <$n x i32> %second to <$pairs x bfloat>
  %result = call <$n x float> @llvm.x86.avx512bf16.dpbf16ps.$bits(
    <$n x float> %sum, <$pairs x bfloat> %a, <$pairs x bfloat> %b)
  ret <$n x float> %result
}
""")
# instruction -> bits of an element, and whether the data are unsigned
_ELEMENTS = {
    "vpdpbusd": (8, True),
    "vpmaddubsw": (8, True),
    "vpdpwssd": (16, False),
    "vpmaddwd": (16, False),
}


def DotProducts() -> Any:
    """A pass that lowers dot products to VNNI, ``vpmaddwd``, ``vpmaddubsw`` and ``vdpbf16ps``.

    Pattern: ``accumulator + dot(data, weight)`` of int32 or vectors of them, or vectors of FP32 for
    ``vdpbf16ps``. Operands are dwords or pairs of loaded elements, scalar or vector, whose stride
    is a dword, or other 32-bit integers. Vectors may broadcast scalars. A joined dot product also
    has the operands of a second reduction step, and a mask for the data of the first step.

    Rewrite: the loads become loads of whole dwords. The accumulation becomes one or two calls of
    LLVM's intrinsics. An inlined LLVM function calls the intrinsic of ``vdpbf16ps``.

    Why here: after VectorizeLoop and UnrollLoop, which see scalar operators of int32. A plain sum
    of products of 8-bit integers would become 32-bit multiplications.
    """
    return dot_product_pass("x86.DotProducts", _emit, after=_imported)


def _emit(total: Any, operands: Sequence[Any], name: str) -> Any:
    if name == _BF16:
        return _added_bf16(total, *operands)
    plain = name.removesuffix(JOINED).removesuffix(NEGATIVE)
    if plain not in _ELEMENTS:
        return None
    if name.endswith(JOINED):
        return _joined(total, operands, plain)
    data, weight = operands
    if name.endswith(NEGATIVE):
        return _difference(total, data, weight, plain)
    return _accumulated(total, data, weight, plain)


def _added_bf16(total: Any, data: Any, weight: Any) -> Any:
    """``total`` plus products of bfloat16, the data last: they may be broadcast from memory."""
    lanes = int(total.ty.dtype.lanes)
    if 32 * lanes not in _MADD:
        raise ValueError(
            f"cannot lower vdpbf16ps: the vector has {lanes} dwords. Expected 4, 8 or 16. "
            "Use channel blocks of a vector in the schedule."
        )
    return tirx.call_pure_extern(f"float32x{lanes}", f"{_BF16_NAME}{lanes}", total, weight, data)


def _imported(func: Any) -> Any:
    """A function together with the LLVM functions that it calls."""
    names = called(func, _BF16_NAME)
    return importing(func, "".join(map(_bf16_function, names))) if names else func


def _bf16_function(name: str) -> str:
    lanes = int(name.removeprefix(_BF16_NAME))
    return _BF16_FUNCTION.substitute(name=name, n=lanes, pairs=2 * lanes, bits=32 * lanes)


def _accumulated(total: Any, data: Any, weight: Any, name: str) -> Any:
    lanes = int(total.ty.dtype.lanes)
    if name == "vpmaddubsw" and lanes > 1:
        return _less(total, _sums_of_bytes(data, weight))
    if (name, 32 * lanes) not in _ACCUMULATING:
        return total + _products(data, weight, name)
    bits, _ = _ELEMENTS[name]
    narrow = f"int{bits}x{32 // bits * lanes}"
    return tirx.call_llvm_pure_intrin(
        f"int32x{lanes}",
        _ACCUMULATING[name, 32 * lanes],
        total,
        tirx.reinterpret(narrow, data),
        tirx.reinterpret(narrow, weight),
    )


def _products(data: Any, weight: Any, name: str) -> Any:
    """The dot products without accumulator: by ``vpmaddwd``, or in plain arithmetic."""
    lanes = int(data.ty.dtype.lanes)
    if name != "vpmaddwd" or lanes == 1:
        bits, unsigned = _ELEMENTS[name]
        return arithmetic(data, weight, bits, unsigned)
    operands = (tirx.reinterpret(f"int16x{2 * lanes}", operand) for operand in (data, weight))
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _MADD[32 * lanes], *operands)


def _difference(total: Any, data: Any, weight: Any, name: str) -> Any:
    """``total`` minus the products, in this order.

    LLVM would reassociate the products of several steps, which takes registers from the
    accumulators. It reassociates sums, and before instruction selection also differences.
    Predicated differences become plain ones after these passes.
    """
    lanes = int(total.ty.dtype.lanes)
    products = _products(data, weight, name)
    if name != "vpmaddwd" or lanes == 1:
        return total - products
    return _less(total, products)


def _joined(total: Any, operands: Sequence[Any], name: str) -> Any:
    """The accumulator plus two steps, or plus one if the second step has no weights."""
    data, weight, *other = operands[:4]
    data = _masked(data, *operands[4:])
    if is_zero(other[1]):
        return _accumulated(total, data, weight, name)
    if int(total.ty.dtype.lanes) == 1:
        return total + _products(data, weight, name) + _products(other[0], other[1], name)
    return _less(total, _sums_of_bytes(data, weight, *other))


def _sums_of_bytes(*dwords: Any) -> Any:
    """Negated dot products of one or two steps: products are first summed in 16 bits."""
    lanes = int(dwords[0].ty.dtype.lanes)
    operands = [tirx.reinterpret(f"int8x{4 * lanes}", dword) for dword in dwords]
    sums = [
        tirx.call_llvm_pure_intrin(f"int16x{2 * lanes}", _MADD_BYTES[32 * lanes], *step)
        for step in zip(operands[::2], operands[1::2], strict=True)
    ]
    pairs = sum(sums[1:], sums[0])
    factor = tirx.Broadcast(tirx.const(-1, "int16"), 2 * lanes)
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", _MADD[32 * lanes], pairs, factor)


def _masked(data: Any, mask: Any = 0) -> Any:
    """The data XORed with a mask."""
    scalar = repeated(mask)
    return data if getattr(scalar, "value", scalar) == 0 else data ^ mask


def _less(total: Any, products: Any) -> Any:
    """The difference, as a predicated operation."""
    lanes = int(total.ty.dtype.lanes)
    everywhere = tirx.Broadcast(tirx.const(True, "bool"), lanes)
    operands = (total, products, everywhere, tirx.const(lanes, "uint32"))
    return tirx.call_llvm_pure_intrin(f"int32x{lanes}", "llvm.vp.sub", *operands)
