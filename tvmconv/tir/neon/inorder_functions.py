"""LLVM functions that load a vector by two 64-bit loads, inlined into generated code.

They use inline assembly, because LLVM would merge both loads or load the second one into its lane
directly. Pointers pass through empty assembly, so that all loads from one of them have constant
offsets and need no addition. A part of
:func:`tvmconv.tir.neon.inorder_half_loads.InorderHalfLoads`.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

IMPORTED = """
define <4 x float> @tvmconv.loaded(ptr %from, i32 %bytes) {
  %base = call ptr asm "", "=r,0"(ptr %from) nounwind willreturn memory(none)
  %place = getelementptr inbounds i8, ptr %base, i32 %bytes
  %lower = load double, ptr %place, align 4
  %begun = insertelement <2 x double> poison, double %lower, i32 0
  %again = call ptr asm "", "=r,0"(ptr %from) nounwind willreturn memory(none)
  %behind = add i32 %bytes, 8
  %second = getelementptr inbounds i8, ptr %again, i32 %behind
  %upper = load i64, ptr %second, align 4
  %word = call i64 asm "", "=r,0"(i64 %upper) nounwind willreturn memory(none)
  %words = bitcast <2 x double> %begun to <2 x i64>
  %whole = insertelement <2 x i64> %words, i64 %word, i32 1
  %result = bitcast <2 x i64> %whole to <4 x float>
  ret <4 x float> %result
}
"""


def loaded(pointer: Any, distance: Any) -> Any:
    """The vector of four FP32 values at a pointer plus a byte offset."""
    return tirx.call_pure_extern("float32x4", "tvmconv.loaded", pointer, distance)
