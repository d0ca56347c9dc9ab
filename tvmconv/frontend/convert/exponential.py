"""exp(x) - 1 without cancellation, which TVM has no operator for."""

from __future__ import annotations

from tvmconv.frontend.convert.writer import RelaxWriter
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op


def expm1(e: RelaxWriter, x: RelaxExpr) -> RelaxExpr:
    """exp(x) - 1 of a float64 value, to all its digits.

    Near 0 it is (u - 1) x / log(u) with u = exp(x) as rounded, whose error the quotient cancels.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, section 1.14.1.
    """
    one = e.scalar(1, "float64")
    grown = e.emit(op.exp(x), "grown")
    less = e.emit(op.subtract(grown, one), "less")
    near = e.emit(op.divide(op.multiply(less, x), op.log(grown)), "near")
    small = e.emit(op.where(op.equal(grown, one), x, near), "small")
    return e.emit(op.where(op.less(op.abs(x), one), small, less), "expm1")
