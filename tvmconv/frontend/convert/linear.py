"""Matrix products."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts, dequantized
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.operators.determinant import determinants
from tvmconv.operators.vector_loops import LOOPS
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr


@converts("Gemm", attrs="alpha beta broadcast transA transB", inputs=2)
def gemm(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """alpha * A' B' + beta * C; scales and transposes of constants are applied at import."""
    alpha, beta = float(node.attrs.get("alpha", 1.0)), float(node.attrs.get("beta", 1.0))
    dtype = e.dtype(node.inputs[0])
    if not dtype.startswith("float") and not (alpha.is_integer() and beta.is_integer()):
        raise node.error(f"alpha={alpha:g} and beta={beta:g} are not both whole numbers, and the "
                         f"operands are {dtype}", "cast them to float")  # fmt: skip
    a = e.value(node.inputs[0])
    if node.attrs.get("transA", 0):
        a = e.emit(relax.op.permute_dims(a), "transposed")
    weight, quantized = e.array(node.inputs[1]), e.quantized.get(node.inputs[1])
    if weight is not None:
        matrix = _transposed(weight) if node.attrs.get("transB", 0) else weight
        if alpha != 1.0:
            matrix = (matrix * np.float64(alpha)).astype(matrix.dtype)
        b, alpha = constant(matrix), 1.0
    elif quantized is not None and node.attrs.get("transB", 0):
        b = e.emit(dequantized(quantized.transposed()), "weight")
    else:
        b = e.value(node.inputs[1])
        if node.attrs.get("transB", 0):
            b = e.emit(relax.op.permute_dims(b), "transposed")
    y = e.emit(relax.op.matmul(a, b))
    if alpha != 1.0:
        y = e.emit(relax.op.multiply(y, e.scalar(alpha, dtype)), "scaled")
    if not node.input(2) or beta == 0.0:
        return y
    bias, quantized = e.array(node.inputs[2]), e.quantized.get(node.inputs[2])
    if bias is not None:
        scaled = bias if beta == 1.0 else (bias * np.float64(beta)).astype(bias.dtype)
        if scaled.ndim == 2 and scaled.shape[0] == 1:
            scaled = scaled.reshape(-1)
        c = constant(scaled)
    else:
        c = e.value(node.inputs[2])
        if quantized is not None and quantized.data.ndim == 2 and len(quantized.data) == 1:
            c = e.emit(dequantized(quantized.reshaped(quantized.data.shape[1:], 0)), "bias")
        if beta != 1.0:
            c = e.emit(relax.op.multiply(c, e.scalar(beta, dtype)), "beta")
    return e.emit(relax.op.add(y, c), "biased")


def _transposed(matrix: Array) -> Array:
    """The transpose in memory order; strips of rows keep the strided writes in the cache."""
    result = np.empty(matrix.shape[::-1], matrix.dtype)
    for row in range(0, matrix.shape[0], 128):
        result[:, row : row + 128] = matrix[row : row + 128].T
    return result


@converts("MatMul", inputs=2)
def matmul(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """MatMul with numpy's broadcasting."""
    return relax.op.matmul(*map(e.value, node.inputs[:2]))


@converts("Det")
def det(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """The determinant of each matrix."""
    shape = e.shape(node.inputs[0])
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise node.misfit(f"data of shape {shape} are not square matrices")
    view = (prod(shape[:-2]), shape[-1], shape[-1])
    matrices = e.emit(relax.op.reshape(e.value(node.inputs[0]), view), "matrices")
    call = e.builder.call_te(
        determinants, matrices, primfunc_name_hint="det", primfunc_attrs={LOOPS: True}
    )
    return relax.op.reshape(e.emit(call, "found"), shape[:-2])
