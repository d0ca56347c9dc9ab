"""Fully connected layers whose weights are stored by output, as GPUs read them."""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.core.epilogue_op import EpilogueOp
from tvmconv.operators.epilogue import apply_epilogue
from tvmconv.tvm_api import te
from tvmconv.tvm_api.types import Expr, Tensor


def dense_rows(
    data: Tensor, weight: Tensor, *rest: Tensor, epilogue: Sequence[EpilogueOp] = ()
) -> Tensor:
    """``epilogue(data @ weight.T)``.

    The weight is ``(N, K)``: neighboring threads read neighboring terms of one sum.
    ``rest`` are the bias ``(N,)`` if the epilogue has ``bias``, then the residual ``(M, N)`` if it
    has ``add``.
    """
    operands = list(rest)
    kinds = [step.kind for step in epilogue]
    bias = operands.pop(0) if "bias" in kinds else None
    residual = operands.pop(0) if "add" in kinds else None
    k = te.reduce_axis((0, data.shape[1]), name="k")
    shape = (data.shape[0], weight.shape[0])
    sums = te.compute(shape, lambda m, n: te.sum(data[m, k] * weight[n, k], k), name="dense")

    def finished(m: Expr, n: Expr) -> Expr:
        added = bias[n] if bias is not None else None
        other = residual[m, n] if residual is not None else None
        return apply_epilogue(sums[m, n], epilogue, added, other)

    return te.compute(shape, finished, name="output")
