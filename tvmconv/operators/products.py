"""Dot products of two or four narrow numbers, as TIR operators that vectorize.

CPUs multiply the elements of packed 32-bit dwords and add the products to a 32-bit accumulator. A
dword is given by its first element: if ``x`` is the element at some index, ``word(x)`` is the
dword that begins there. The dword is an int32 scalar. A dot product of dwords is a scalar of the
accumulator's type, like any other operand of a reduction. Expressions and schedules of such kernels
therefore have the form of FP32 kernels. :mod:`tvmconv.tir.general.dot_products` lowers the
operators to instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tvmconv.machines.multiply import BY_NAME
from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir import register_operator
from tvmconv.tvm_api.types import Expr

WORD, PAIR = "tvmconv.word", "tvmconv.pair"
# followed by the number of elements in a dword
SIDE_BY_SIDE = "tvmconv.side_by_side_"
# operator of the data and weight of one channel
TAP = "tvmconv.tap"
_DOT = "tvmconv.dot_"
# suffixes of a dot product that is subtracted, and of a dot product of two joined steps
NEGATIVE, JOINED = "_negative", "_joined"


def word(element: Expr, *others: Expr) -> Expr:
    """The dword that begins at a loaded element: 4 elements of 8 bits or 2 of 16, as int32.

    All elements of a stage that a schedule moves are named, so that all are computed.
    """
    return _call(WORD, element, *others)


def pair(element: Expr) -> Expr:
    """The dword of two 16-bit integers, widened from the 8-bit integers at a loaded element."""
    return _call(PAIR, element)


def side_by_side(values: Sequence[Expr], width: int) -> Expr:
    """The dword of unsigned 8-bit values, the first in its low bits.

    ``width`` is 4 elements of 8 bits, or 2 that are widened to 16. If there are fewer values,
    missing elements may have any value, and must be multiplied by zero.
    """
    return _call(f"{SIDE_BY_SIDE}{width}", *values)


def tap(data: Expr, weight: Expr) -> Expr:
    """The product of two int8; 16 bits hold the sum of two, unless weights collide.

    See :func:`tvmconv.algorithms.integer.dwords.has_colliding_weights`.
    """
    return _call(TAP, data, weight)


def dot(data: Expr, weight: Expr, instruction: str) -> Expr:
    """The dot product of the elements of two dwords, as an instruction computes it.

    ``instruction`` is one of :data:`tvmconv.machines.multiply.BY_NAME`.
    """
    accumulator = BY_NAME[instruction].accumulator
    return tirx.call_intrin(accumulator, operator_of(instruction), data, weight)


def joined_dot(
    step: tuple[Expr, Expr], other: tuple[Expr, Expr], instruction: str, mask: Expr | None = None
) -> Expr:
    """The sum of the dot products of two steps, added before they are widened to 32 bits.

    A step has dwords of data and weights. The other step is omitted if its weights are the constant
    0. ``instruction`` is one of :data:`tvmconv.machines.multiply.BY_NAME`. ``mask`` is a XOR mask
    for the data of the first step, in vectors.
    """
    masks = [] if mask is None else [mask]
    return _call(_DOT + instruction + JOINED, *step, *other, *masks)


def operator_of(instruction: str) -> str:
    """The operator of an instruction's dot product, for code that is written as text."""
    return registered(_DOT + instruction)


def negative_dot(data: Expr, weight: Expr, instruction: str) -> Expr:
    """As :func:`dot`, for negated data.

    If a step is a product and an addition, negated data turn the addition into a subtraction, which
    LLVM does not reorder.
    """
    return _call(_DOT + instruction + NEGATIVE, data, weight)


def instruction_of(name: str) -> str:
    """The instruction of a dot-product operator; empty for other operators."""
    return name.removeprefix(_DOT) if name.startswith(_DOT) else ""


@cache
def registered(name: str, *, updates: bool = False) -> str:
    """The name of a TIR operator, which is registered with TVM if needed."""
    register_operator(name, updates=updates)
    return name


def _call(name: str, *operands: Expr) -> Expr:
    return tirx.call_intrin("int32", registered(name), *operands)
