"""Quotients and remainders, of integers too."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.convert.elementwise import operands_of, zero_rank
from tvmconv.frontend.convert.writer import RelaxWriter, converts
from tvmconv.frontend.graph import OnnxNode
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op

# floating-point types that hold quotients of integers well enough to truncate them
_QUOTIENTS = {
    "int8": "float32",
    "int16": "float32",
    "int32": "float64",
    "uint8": "float32",
    "uint16": "float32",
    "uint32": "float64",
}


@converts("Div", attrs="axis broadcast", inputs=2)
def divide(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Division; integers truncate towards zero, and by zero there comes zero."""
    a, b = operands_of(e, node)
    whole = not e.dtype(node.inputs[0]).startswith("float")
    return zero_rank(e, node, _whole_quotient(e, node, a, b) if whole else op.divide(a, b))


def _whole_quotient(e: RelaxWriter, node: OnnxNode, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """The quotient of integers."""
    dtype = e.dtype(node.inputs[0])
    if dtype == "int64":
        return _long_quotient(e, node, a, b)
    divisor = _divisor(e, node, b, {0})
    short = dtype in _QUOTIENTS
    quotient = _quotient(e, dtype, a, divisor) if short else op.floor_divide(a, divisor)
    if divisor is b:
        return quotient
    # a product, as TVM would simplify the divisor within a selection by the same condition
    return op.multiply(quotient, op.astype(op.not_equal(b, e.scalar(0, dtype)), dtype))


def _long_quotient(e: RelaxWriter, node: OnnxNode, a: RelaxExpr, b: RelaxExpr) -> RelaxExpr:
    """The quotient of int64; the smallest integer by -1 is itself, as in numpy."""
    divisor = _divisor(e, node, b, {0, -1})
    quotient = op.divide(a, divisor)
    if divisor is b:
        return quotient
    defined, negates = (
        op.astype(test(b, e.scalar(number, "int64")), "int64")
        for test, number in ((op.not_equal, 0), (op.equal, -1))
    )
    sign = e.emit(op.subtract(defined, op.add(negates, negates)), "sign")
    return op.multiply(quotient, sign)


def _quotient(e: RelaxWriter, dtype: str, a: RelaxExpr, divisor: RelaxExpr) -> RelaxExpr:
    """The quotient of :data:`_QUOTIENTS` by a division of floating-point numbers, in vectors.

    A quotient that is not whole differs from the next integer by more than its rounding.
    """
    wide = _QUOTIENTS[dtype]
    parts = [e.emit(op.astype(operand, wide), "wide") for operand in (a, divisor)]
    quotient = e.emit(op.divide(*parts), "quotient")
    if dtype == "int32":
        # the smallest integer by -1 is itself, as in numpy
        over = op.greater(quotient, e.scalar(2**31 - 1, wide))
        quotient = e.emit(op.where(over, e.scalar(-(2**31), wide), quotient), "wrapped")
    whole = op.astype(quotient, dtype if dtype.startswith("uint") else "int32")
    return e.emit(op.astype(e.emit(whole, "whole"), dtype), "whole")


def _divisor(e: RelaxWriter, node: OnnxNode, b: RelaxExpr, traps: set[int]) -> RelaxExpr:
    """Integers with 1 in place of those at which the processor's division raises a signal.

    0 has no quotient; by -1 the smallest integer has none, and every remainder is that by 1.
    """
    name = node.inputs[1]
    known, dtype = e.array(name), e.dtype(name)
    if known is not None and not np.isin(known, list(traps)).any():
        return b
    for trap in sorted(traps):
        if trap == 0 or not dtype.startswith("uint"):
            wrong = op.equal(b, e.scalar(trap, dtype))
            b = e.emit(op.where(wrong, e.scalar(1, dtype), b), "divisor")
    return b


@converts("Mod", attrs="fmod", inputs=2)
def modulo(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """Remainder with the divisor's sign, or with the dividend's for ``fmod=1``."""
    a, b = operands_of(e, node)
    truncated, dtype = bool(node.attrs.get("fmod", 0)), e.dtype(node.inputs[0])
    if not dtype.startswith("float"):
        b = _divisor(e, node, b, {0, -1})
        return zero_rank(e, node, op.mod(a, b) if truncated else op.floor_mod(a, b))
    rest = e.emit(op.mod(a, b), "rest")
    if truncated:
        return rest
    zero = e.scalar(0, dtype)
    below = e.emit(op.less(b, zero), "below")
    differs = e.emit(op.logical_xor(op.less(rest, zero), below), "differs")
    moved = e.emit(op.where(differs, op.add(rest, b), rest), "moved")
    signed = e.emit(op.where(below, e.scalar(-0.0, dtype), zero), "zero")
    return op.where(op.equal(rest, zero), signed, moved)
