"""Winograd's one-dimensional transforms as expressions without loops.

Multiplications by 0 and 1 are omitted. Rows of opposite points +p and -p share their even and odd
parts. One row is the sum, the other the difference (Wang et al. 2020, section 3.3). The parts are
written identically in both rows, so that the compiler computes them once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tvmconv.algorithms.winograd.matrices import Transforms
from tvmconv.tvm_api.types import Expr


def input_rows(transforms: Transforms, values: Sequence[Expr]) -> list[Expr]:
    """The n products of ``B^T`` and a column of n values."""
    from tvmconv.operators.math import literal

    matrix = transforms.input_matrix()
    partner = {p: q for pair in transforms.pairs for p, q in (pair, pair[::-1])}
    positive = {p for p, _ in transforms.pairs}
    rows = []
    for p in range(transforms.n):
        if p not in partner:
            rows.append(_combine(matrix[p], values))
            continue
        first = p if p in positive else partner[p]
        # the opposite point negates every second coefficient of one parity
        even = (matrix[first] + matrix[partner[first]]) / 2
        odd = (matrix[first] - matrix[partner[first]]) / 2
        factor = _shared_factor(odd, values)
        total, rest = _combine(even, values), _combine(odd / factor, values)
        if factor != 1:
            rest = rest * literal(factor, rest)
        rows.append(total + rest if p == first else total - rest)
    return rows


def output_rows(transforms: Transforms, values: Sequence[Expr]) -> list[Expr]:
    """The m products of ``A^T`` and a column of n values."""
    matrix = transforms.output_matrix()
    second = {q for _, q in transforms.pairs}
    partner = dict(transforms.pairs)
    rows = []
    for i in range(transforms.m):
        factors, terms = [], []
        for p in range(transforms.n):
            if p in second or matrix[i][p] == 0:
                continue
            term = values[p]
            if p in partner:
                other = values[partner[p]]
                term = term - other if i % 2 else term + other
            factors.append(float(matrix[i][p]))
            terms.append(term)
        rows.append(_combine(factors, terms))
    return rows


def _shared_factor(odd: npt.NDArray[np.float64], values: Sequence[Expr]) -> float:
    """A factor that is moved from an odd part's terms to its sum; 1 for none.

    For floating-point types, the final addition fuses with this product, and one term needs none.
    """
    from tvmconv.operators.math import literal

    if "float" not in str(literal(0, values[0]).ty.dtype):
        return 1.0
    return float(odd[np.flatnonzero(odd)[-1]])


def choose(index: Expr, expressions: Sequence[Expr]) -> Expr:
    """The expression with an index; the others are removed once the index is unrolled."""
    from tvmconv.tvm_api import tirx

    result = expressions[-1]
    for i in range(len(expressions) - 2, -1, -1):
        result = tirx.if_then_else(index == i, expressions[i], result)
    return result


def _combine(factors: Sequence[float], values: Sequence[Expr]) -> Expr:
    """The sum of products; terms with factor 1, then -1, come first: the rest are FMAs."""
    from tvmconv.operators.math import literal

    terms = [(float(f), v) for f, v in zip(factors, values, strict=True) if f != 0]
    terms.sort(key=lambda term: {1.0: 0, -1.0: 1}.get(term[0], 2))
    result = None
    for factor, value in terms:
        if result is None:
            result = value if factor == 1 else value * literal(factor, value)
        elif factor == 1:
            result = result + value
        elif factor == -1:
            result = result - value
        else:
            result = result + value * literal(factor, value)
    assert result is not None, "a transform has no row of zeros"
    return result
