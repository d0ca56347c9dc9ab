"""Sums of two or four products of narrow integers, as operators of TIR that vectorise.

Processors multiply 32-bit words of narrow integers, element by element, and add the products to a
32-bit sum. A word is given by its first element: where ``x`` is the element at some index,
``word(x)`` is the 32 bits that begin there. A dot product of words is a scalar of int32 like any
other operand of a reduction, so that expressions and schedules of such kernels have the form of
float32 ones. :mod:`tvmconv.tir.general.dot_products` turns the operators into instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tvmconv.tvm_api import tirx
from tvmconv.tvm_api.ir import register_operator
from tvmconv.tvm_api.types import Expr

WORD, PAIR = "tvmconv.word", "tvmconv.pair"
# followed by the number of elements in a word
SIDE_BY_SIDE = "tvmconv.side_by_side_"
# of the data and weight of one channel
TAP = "tvmconv.tap"
_DOT = "tvmconv.dot_"
# end of the name of a dot product that is subtracted, and of one of two steps
NEGATIVE, JOINED = "_negative", "_joined"


def word(element: Expr, *others: Expr) -> Expr:
    """The 32-bit word that begins at a loaded element: 4 of 8 bits or 2 of 16.

    Elements of a stage that a schedule moves are all named, so that all are computed.
    """
    return _call(WORD, element, *others)


def pair(element: Expr) -> Expr:
    """The word of two 16-bit integers made of the 8-bit ones from a loaded element on."""
    return _call(PAIR, element)


def side_by_side(values: Sequence[Expr], width: int) -> Expr:
    """The word of unsigned 8-bit values, the first in its low bits.

    Parameters
    ----------
    values
        As many as a word has elements, or fewer: those left out may be anything, and are to be
        multiplied by zero.
    width
        Elements of a word: 4 of 8 bits, or 2 that are widened to 16.
    """
    return _call(f"{SIDE_BY_SIDE}{width}", *values)


def tap(data: Expr, weight: Expr) -> Expr:
    """The product of two int8, of which 16 bits hold two: those of weights that do not collide.

    See :func:`tvmconv.algorithms.integer.dwords.has_colliding_weights`.
    """
    return _call(TAP, data, weight)


def dot(data: Expr, weight: Expr, instruction: str) -> Expr:
    """The sum of products of two words' elements, as an instruction multiplies them.

    Parameters
    ----------
    data, weight
        Words.
    instruction
        One of :data:`tvmconv.machines.multiply.BY_NAME`.
    """
    return _call(operator_of(instruction), data, weight)


def joined_dot(
    step: tuple[Expr, Expr], other: tuple[Expr, Expr], instruction: str, mask: Expr | None = None
) -> Expr:
    """The sum of the dot products of two steps, whose products are added as narrow as they are.

    Parameters
    ----------
    step, other
        Words of data and weights. Where the weights of the other are the constant 0 it is left out.
    instruction
        One of :data:`tvmconv.machines.multiply.BY_NAME`.
    mask
        What the data of the first are xor-ed with, in vectors.
    """
    masks = [] if mask is None else [mask]
    return _call(_DOT + instruction + JOINED, *step, *other, *masks)


def operator_of(instruction: str) -> str:
    """The operator of an instruction's dot product, for code that is written as text."""
    return registered(_DOT + instruction)


def negative_dot(data: Expr, weight: Expr, instruction: str) -> Expr:
    """As :func:`dot`, of data whose elements have the opposite sign.

    Where a step is two instructions, a product and an addition, sums of such data are differences,
    which LLVM leaves in their order.
    """
    return _call(_DOT + instruction + NEGATIVE, data, weight)


def instruction_of(name: str) -> str:
    """Which instruction's dot product an operator is; empty for other operators."""
    return name.removeprefix(_DOT) if name.startswith(_DOT) else ""


@cache
def registered(name: str, *, updates: bool = False) -> str:
    """The name of an operator of TIR, known to TVM from now on."""
    register_operator(name, updates=updates)
    return name


def _call(name: str, *operands: Expr) -> Expr:
    return tirx.call_intrin("int32", registered(name), *operands)
