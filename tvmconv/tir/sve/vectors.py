"""Scalable vectors of AArch64 in TIR: their types, their length, and LLVM's functions on them."""

from __future__ import annotations

from typing import Any

# float32 values of a segment, and how many of them the longest vector has
SEGMENT = 4
MOST_SEGMENTS = 2048 // 32 // SEGMENT
FLOATS, FLAGS = "float32xvscalex4", "boolxvscalex4"


class NoScalableForm(Exception):
    """An expression for which there are no instructions on several pixels at once."""


def length() -> Any:
    """float32 values of a vector."""
    from tvm import tirx

    return tirx.vscale() * SEGMENT


def intrinsic(dtype: str, name: str, *arguments: Any) -> Any:
    """A call of one of LLVM's functions for SVE that has no effect."""
    from tvm import tirx

    return tirx.call_llvm_pure_intrin(dtype, f"llvm.aarch64.sve.{name}", *arguments)


def number(value: int) -> Any:
    """An index."""
    from tvm import tirx

    return tirx.IntImm("int32", value)


def is_number(node: Any, value: int) -> bool:
    """Whether an expression is this constant."""
    from tvm import tirx

    return isinstance(node, tirx.IntImm) and int(node) == value
