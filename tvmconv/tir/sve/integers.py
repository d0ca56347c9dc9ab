"""Dot products of INT8 layers, and their 8-bit results, as scalable vectors.

A part of :func:`tvmconv.tir.sve.vectorize_pixels.VectorizePixels`. A position of the loop is four
positions of the layer, as in a vector of NEON code. A segment of data has the dwords of all four,
and a segment of accumulators has four outputs of one::

    sdot  z8.s, z4.b, z0.b[1]       four outputs of the second position of each segment

Results of four vectors become bytes of one. ``uzp1`` keeps every other element of two vectors, the
elements of the first vector before the others. Two such steps leave dwords in the order (position
of four, segment), which ``tbl`` transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import ir, tirx
from tvm.target import codegen

from tvmconv.tir.sve.dot_products import FUNCTIONS
from tvmconv.tir.sve.vectors import (
    ALL,
    BYTES,
    FLAGS,
    FLOATS,
    INTEGERS,
    SEGMENT,
    SHORTS,
    NoScalableForm,
    intrinsic,
    length,
    number,
    scalable,
)

# LLVM intrinsics that exist for vectors of every length
_ANY_LENGTH = ("llvm.sadd.sat", "llvm.ssub.sat", "llvm.arithmetic.fence", "llvm.roundeven")
_ADD = "llvm.sadd.sat"
_ROUND = "llvm.aarch64.neon.fcvtns"
_NARROW = ("llvm.aarch64.neon.sqxtn", "llvm.aarch64.neon.sqxtun")
_UNSIGNED = _NARROW[1]

# an expression of one position -> the same for all positions
Value = Callable[[Any], Any]


def integer_call(call: Any, value: Value) -> Any:
    """A call of an INT8 layer, of four lanes for each position; None for other calls.

    ``value`` computes an operand for all positions.
    """
    if str(getattr(call.op, "name", "")) == "tirx.call_pure_extern":
        return _dot_product(call, value)
    name = _intrinsic_name(call)
    if name in _ANY_LENGTH:
        operands = [value(operand) for operand in call.args[1:]]
        return tirx.call_llvm_pure_intrin(scalable(call.ty.dtype), name, *operands)
    if name == _ROUND:
        return _rounded(value(call.args[1]))
    return None


def _dot_product(call: Any, value: Value) -> Any:
    """``sdot`` by a lane, of a function of :mod:`tvmconv.tir.sve.dot_products`."""
    name = str(call.args[0].value)
    kind, *lane = name.removeprefix(f"{FUNCTIONS}_").split("_")
    if not name.startswith(FUNCTIONS) or kind != str(SEGMENT) or not lane:
        return None
    total, weight, data = (value(operand) for operand in call.args[1:])
    operands = (tirx.reinterpret(BYTES, operand) for operand in (weight, data))
    return intrinsic(INTEGERS, "sdot.lane", total, *operands, number(int(*lane)))


def extended(data: Any, position: int) -> Any:
    """The signed bytes of one position of each segment as int32: a product by the unit matrix."""
    lanes = tirx.Ramp(number(0), number(1), length())
    three, eight, one = (tirx.Broadcast(number(n), length()) for n in (3, 8, 1))
    unit = tirx.shift_left(one, tirx.bitwise_and(lanes, three) * eight)
    zeros = tirx.Broadcast(number(0), length())
    return intrinsic(
        INTEGERS, "sdot.lane", zeros, tirx.reinterpret(BYTES, unit), data, number(position)
    )


def _rounded(floats: Any) -> Any:
    """The nearest integers, ties to even; values beyond int32 become its ends."""
    whole = intrinsic(FLAGS, "ptrue", number(ALL))
    nearest = intrinsic(FLOATS, "frintn", floats, whole, floats)
    zeros = tirx.Broadcast(number(0), length())
    return intrinsic(INTEGERS, "fcvtzs", zeros, whole, nearest)


def narrowed(shuffle: Any, value: Value) -> Any:
    """The bytes of four int32 vectors of each position, in the order of the vectors.

    Raises ``NoScalableForm`` for a shuffle that NEON's pass ``Narrowing`` did not make.
    """
    low, high, vectors = _narrowed_vectors(shuffle)
    ends = [tirx.Broadcast(number(end), length()) for end in (low, high)]
    bounded = [tirx.Min(tirx.Max(vector(value), ends[0]), ends[1]) for vector in vectors]
    pairs = [
        intrinsic(SHORTS, "uzp1", *(tirx.reinterpret(SHORTS, part) for part in bounded[i : i + 2]))
        for i in (0, 2)
    ]
    joined = intrinsic(BYTES, "uzp1", *(tirx.reinterpret(BYTES, pair) for pair in pairs))
    dwords = tirx.reinterpret(INTEGERS, joined)
    return tirx.reinterpret(BYTES, intrinsic(INTEGERS, "tbl", dwords, _transposed()))


def _transposed() -> Any:
    """Where dword ``4 p + i`` is among dwords in the order ``i``, then segment ``p``."""
    lanes = tirx.Ramp(number(0), number(1), length())
    two, three = (tirx.Broadcast(number(n), length()) for n in (2, 3))
    segments = tirx.Broadcast(tirx.vscale(), length())
    return tirx.bitwise_and(lanes, three) * segments + tirx.shift_right(lanes, two)


def _narrowed_vectors(shuffle: Any) -> tuple[int, int, list[Callable[[Value], Any]]]:
    """Ends of the 8-bit type, and functions that compute the int32 vectors with the zero point."""
    halves = [_arguments(half, *_NARROW) for half in _joined(shuffle)]
    unsigned = _intrinsic_name(shuffle.vectors[0]) == _UNSIGNED
    vectors = []
    for (half,) in halves:
        zero_point = None
        if _intrinsic_name(half) == _ADD:
            half, zero_point = half.args[1:]
        for part in _joined(half):
            (vector,) = _arguments(part, _NARROW[0])
            vectors.append(_shifted(vector, zero_point))
    if len(vectors) != SEGMENT:
        raise NoScalableForm(f"{len(vectors)} vectors that are narrowed")
    return (0, 255, vectors) if unsigned else (-128, 127, vectors)


def _shifted(vector: Any, zero_point: Any) -> Callable[[Value], Any]:
    """A vector plus the zero point, which saturates, so that the order of both does not matter."""

    def compute(value: Value) -> Any:
        if zero_point is None:
            return value(vector)
        added = tirx.Broadcast(tirx.Cast("int32", zero_point.value), length())
        return tirx.call_llvm_pure_intrin(INTEGERS, _ADD, value(vector), added)

    return compute


def _joined(shuffle: Any) -> Sequence[Any]:
    """The two vectors that a shuffle only puts side by side."""
    if isinstance(shuffle, tirx.Shuffle) and len(shuffle.vectors) == 2:
        order = [int(index) for index in shuffle.indices]
        if order == list(range(sum(int(v.ty.dtype.lanes) for v in shuffle.vectors))):
            return list(shuffle.vectors)
    raise NoScalableForm(f"a shuffle of lanes, {shuffle}")


def _arguments(call: Any, *names: str) -> Sequence[Any]:
    """The operands of a call of one of these LLVM intrinsics."""
    if _intrinsic_name(call) not in names:
        raise NoScalableForm(f"lanes of {call}")
    return list(call.args[1:])


def _intrinsic_name(call: Any) -> str:
    """The LLVM intrinsic that an expression calls, without its types; empty for others."""
    if not isinstance(call, ir.Call) or getattr(call.op, "name", "") != _LLVM_CALL:
        return ""
    return str(codegen.llvm_get_intrinsic_name(int(call.args[0])))


_LLVM_CALL = "tirx.call_llvm_pure_intrin"
