"""Maxima and minima that replace an operand in memory, by AVX's instructions."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import function_pass, map_nodes

# type of a vector -> LLVM's intrinsics
_INTRINSICS = {
    "float32x4": "llvm.x86.sse.{}.ps",
    "float32x8": "llvm.x86.avx.{}.ps.256",
    "float64x2": "llvm.x86.sse2.{}.pd",
    "float64x4": "llvm.x86.avx.{}.pd.256",
}


def InPlaceExtrema() -> Any:
    """A pass that selects instructions for maxima and minima with a value in memory.

    Pattern: a store of a whole vector, whose value is the maximum or the minimum of the vector
    there and another one. Machines with AVX-512 mask stores at no cost and leave this pass out.

    Rewrite: LLVM's intrinsic for ``vmaxps`` or ``vminps``, which return the second operand for NaN
    as TVM's comparison does.

    Why here: LLVM makes a masked store of a comparison and a store to the place of an operand. AMD
    CPUs execute ``vmaskmovps`` to memory slowly. Long pools took three times as long.
    """
    return function_pass("x86.InPlaceExtrema", _rewritten)


def _rewritten(func: Any) -> Any:
    return map_nodes(func, (tirx.BufferStore, _with_instruction))


def _with_instruction(store: Any) -> Any:
    value = store.value
    if not isinstance(value, tirx.Max | tirx.Min):
        return store
    name = _INTRINSICS.get(str(value.ty.dtype))
    if name is None or not any(_is_replaced(operand, store) for operand in (value.a, value.b)):
        return store
    kind = "max" if isinstance(value, tirx.Max) else "min"
    intrinsic = name.format(kind)
    extreme = tirx.call_llvm_pure_intrin(str(value.ty.dtype), intrinsic, value.a, value.b)
    return tirx.BufferStore(store.buffer, extreme, store.indices)


def _is_replaced(operand: Any, store: Any) -> bool:
    """Whether an operand is the vector to whose place is stored."""
    return (
        isinstance(operand, ir.TensorLoad)
        and operand.source.same_as(store.buffer)
        and tvm_ffi.structural_equal(operand.indices, store.indices)
    )
