"""Softmax and its logarithm on any axis (three passes: maximum, exponentials, scaling).

:mod:`tvmconv.operators.softmax_rows` has the same along rows, by vectors of fixed length.
"""

from __future__ import annotations

from tvmconv.operators import math
from tvmconv.operators.negative_exp import exp_of_negative
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Index, Tensor


def softmax(data: Tensor, axis: int = -1) -> Tensor:
    """``exp(x - max) / sum(exp(x - max))`` along one axis."""
    return _softmax(data, axis, logarithm=False)


def log_softmax(data: Tensor, axis: int = -1) -> Tensor:
    """``x - max - log(sum(exp(x - max)))`` along one axis."""
    return _softmax(data, axis, logarithm=True)


def _softmax(data: Tensor, axis: int, logarithm: bool) -> Tensor:
    shape = [int(d) for d in data.shape]
    axis %= len(shape)
    outer = shape[:axis] + shape[axis + 1 :] or [1]

    def without(index: tuple[Expr, ...]) -> tuple[Index, ...]:
        return index[:axis] + index[axis + 1 :] or (0,)

    def along(index: tuple[Expr, ...], k: Expr) -> tuple[Expr, ...]:
        return (*index[:axis], k, *index[axis:])[: len(shape)]

    k = te.reduce_axis((0, shape[axis]), "k")
    peak = te.compute(outer, lambda *i: te.max(data[along(i, k)], axis=k), name="softmax_max")
    if logarithm:
        total = te.compute(
            outer,
            lambda *i: te.sum(exp_of_negative(data[along(i, k)] - peak[i]), axis=k),
            name="softmax_sum",
        )
        # the maximum by itself first: its sum with the logarithm would drop that one's digits
        part = te.compute(outer, lambda *i: math.log(total[i]), name="softmax_log")
        return te.compute(
            shape,
            lambda *i: data[i] - peak[without(i)] - part[without(i)],
            name="log_softmax",
            attrs={"tvmconv.operator": "log_softmax"},
        )
    power = te.compute(
        shape, lambda *i: exp_of_negative(data[i] - peak[without(i)]), name="softmax_exp"
    )
    total = te.compute(outer, lambda *i: te.sum(power[along(i, k)], axis=k), name="softmax_sum")
    inverse = te.compute(
        outer, lambda *i: tirx.const(1.0, data.dtype) / total[i], name="softmax_inverse"
    )
    return te.compute(
        shape,
        lambda *i: power[i] * inverse[without(i)],
        name="softmax",
        attrs={"tvmconv.operator": "softmax"},
    )
