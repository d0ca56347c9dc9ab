"""The halves of vectors, as functions of LLVM that are inlined into generated code.

The functions read and write registers by assembly where LLVM must not choose the instruction: it
would join halves to a whole vector, or load the second straight into its lane, and it knows of no
pairs of instructions that start together. Pointers pass through empty assembly, so that all loads
from one of them have constant distances and need no addition. A part of
:func:`tvmconv.tir.halved_loads.HalvedLoads`.
"""

from __future__ import annotations

from typing import Any

# the lanes at which a vector of eight holds a vector that was begun; completed ones are before
START = [4, 5, 6, 7]

IMPORTED = """
define i64 @tvmconv.upper(ptr %from, i32 %bytes) {
  %base = call ptr asm "", "=r,0"(ptr %from) nounwind willreturn memory(none)
  %behind = add i32 %bytes, 8
  %place = getelementptr inbounds i8, ptr %base, i32 %behind
  %word = load i64, ptr %place, align 4
  ret i64 %word
}

define <8 x float> @tvmconv.loaded(ptr %from, i32 %bytes) {
  %begun = call <8 x float> @tvmconv.started(ptr %from, i32 %bytes)
  %first = shufflevector <8 x float> %begun, <8 x float> poison,
    <4 x i32> <i32 4, i32 5, i32 6, i32 7>
  %second = call i64 @tvmconv.upper(ptr %from, i32 %bytes)
  %result = call <8 x float> @tvmconv.completed_last(<4 x float> %first, i64 %second)
  ret <8 x float> %result
}

define <8 x float> @tvmconv.started(ptr %from, i32 %bytes) {
  %base = call ptr asm "", "=r,0"(ptr %from) nounwind willreturn memory(none)
  %place = getelementptr inbounds i8, ptr %base, i32 %bytes
  %word = load double, ptr %place, align 4
  %both = insertelement <4 x double> poison, double %word, i32 2
  %result = bitcast <4 x double> %both to <8 x float>
  ret <8 x float> %result
}

define <8 x float> @tvmconv.completed(<4 x float> %begun, i64 %upper, ptr %from, i32 %bytes) {
  %base = call ptr asm "", "=r,0"(ptr %from) nounwind willreturn memory(none)
  %pair = call {<4 x float>, <4 x float>} asm
    "ldr ${0:d}, [$2, $3]\\0Ains $1.d[1], $4", "=&w,=w,r,i,r,*m,1"
    (ptr %base, i32 %bytes, i64 %upper, ptr elementtype(i64) %base, <4 x float> %begun)
    nounwind willreturn memory(read)
  %next = extractvalue {<4 x float>, <4 x float>} %pair, 0
  %whole = extractvalue {<4 x float>, <4 x float>} %pair, 1
  %result = shufflevector <4 x float> %whole, <4 x float> %next,
    <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  ret <8 x float> %result
}

define <8 x float> @tvmconv.completed_last(<4 x float> %begun, i64 %upper) {
  %word = call i64 asm "", "=r,0"(i64 %upper) nounwind willreturn memory(none)
  %words = bitcast <4 x float> %begun to <2 x i64>
  %whole = insertelement <2 x i64> %words, i64 %word, i32 1
  %both = shufflevector <2 x i64> %whole, <2 x i64> poison, <4 x i32> <i32 0, i32 1, i32 0, i32 1>
  %result = bitcast <4 x i64> %both to <8 x float>
  ret <8 x float> %result
}
"""


def upper(pointer: Any, distance: Any) -> Any:
    """The second word of the vector at a pointer and so many bytes, in an integer register."""
    return _call("int64", "upper", pointer, distance)


def loaded(pointer: Any, distance: Any) -> Any:
    """That vector."""
    return _call("float32x8", "loaded", pointer, distance)


def started(pointer: Any, distance: Any) -> Any:
    """The first word of that vector, at :data:`START`."""
    return _call("float32x8", "started", pointer, distance)


def completed(begun: Any, second: Any, pointer: Any, distance: Any) -> Any:
    """A vector of its two words, and at :data:`START` the first word of another."""
    return _call("float32x8", "completed", begun, second, pointer, distance)


def completed_last(begun: Any, second: Any) -> Any:
    """A vector of its two words."""
    return _call("float32x8", "completed_last", begun, second)


def _call(dtype: str, name: str, *arguments: Any) -> Any:
    from tvm import tirx

    return tirx.call_pure_extern(dtype, f"tvmconv.{name}", *arguments)
