"""Scalable vectors of AArch64 in TIR: their types and length, and LLVM's intrinsics for them."""

from __future__ import annotations

from typing import Any

from tvm import tirx

# FP32 values of a segment; segments of the longest vector
SEGMENT = 4
MOST_SEGMENTS = 2048 // 32 // SEGMENT
# the pattern of ptrue that sets every lane
ALL = 31
FLOATS, INTEGERS, FLAGS = "float32xvscalex4", "int32xvscalex4", "boolxvscalex4"
SHORTS, BYTES = "int16xvscalex8", "int8xvscalex16"
_SEGMENT_BYTES = 16


class NoScalableForm(Exception):
    """An expression that scalable vectors cannot compute for several positions at once."""


def length() -> Any:
    """FP32 values of a vector."""
    return tirx.vscale() * SEGMENT


def scalable(dtype: Any) -> str:
    """The vector type with an element, of this type or vector type, in each FP32 lane."""
    return f"{str(dtype).split('x')[0]}xvscalex{SEGMENT}"


def is_bytes(dtype: Any) -> bool:
    """Whether a type is 8-bit integers, or a vector of them."""
    return str(dtype).split("x")[0] in ("int8", "uint8")


def of_segment(dtype: Any) -> int:
    """Elements of a type, or vectors of this type, in a segment; 0 for types without a form."""
    kind, *lanes = str(dtype).split("x")
    bytes_of = {"float32": 4, "int32": 4, "int8": 1, "uint8": 1}.get(kind)
    items = _SEGMENT_BYTES // bytes_of if bytes_of else 0
    return items // int(*lanes or (1,))


def intrinsic(dtype: str, name: str, *arguments: Any) -> Any:
    """A call of an LLVM intrinsic for SVE without side effects."""
    return tirx.call_llvm_pure_intrin(dtype, f"llvm.aarch64.sve.{name}", *arguments)


def number(value: int) -> Any:
    """An int32 constant."""
    return tirx.IntImm("int32", value)


def is_number(node: Any, value: int) -> bool:
    """Whether an expression is this constant."""
    return isinstance(node, tirx.IntImm) and int(node) == value
