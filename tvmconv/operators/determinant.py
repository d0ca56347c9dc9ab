"""Determinants by elimination."""

from __future__ import annotations

from typing import Any

from tvmconv.operators.vector_loops import scratch
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

_PARALLEL = 1 << 14


def determinants(data: Tensor) -> Tensor:
    """The determinant of each matrix of ``(batch, n, n)``, eliminated in FP64.

    The row with the largest element is the pivot, as usual: no other order is as exact.
    """
    batch, size, _ = (int(extent) for extent in data.shape)
    dtype, wide = str(data.dtype), "float64"

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, target = T.buffer_proxy(ins[0]), T.buffer_proxy(outs[0])
            loop = T.parallel if batch > 1 and batch * size**3 > _PARALLEL else T.serial
            with loop(0, batch) as item:
                matrix, row = scratch(size * size, wide), scratch(1, "int32")
                product, factor = scratch(1, wide), scratch(1, wide)
                with T.grid(size, size) as (i, j):
                    matrix[i * size + j] = tirx.Cast(wide, source[item, i, j])
                product[0] = tirx.const(1, wide)
                with T.serial(0, size) as k:
                    row[0] = k
                    with T.serial(0, size - 1 - k) as below:
                        i = k + 1 + below
                        own, best = matrix[i * size + k], matrix[row[0] * size + k]
                        with T.If(tirx.abs(own) > tirx.abs(best)), T.Then():
                            row[0] = i
                    with T.If(row[0] != k), T.Then():
                        product[0] = -product[0]
                        with T.serial(0, size) as j:
                            factor[0] = matrix[k * size + j]
                            matrix[k * size + j] = matrix[row[0] * size + j]
                            matrix[row[0] * size + j] = factor[0]
                    product[0] = product[0] * matrix[k * size + k]
                    with T.serial(0, size - 1 - k) as below:
                        i, pivot = k + 1 + below, matrix[k * size + k]
                        zero = tirx.const(0, wide)
                        ratio = matrix[i * size + k] / pivot
                        factor[0] = tirx.Select(pivot != zero, ratio, zero)
                        with T.serial(0, size) as j:
                            old = matrix[i * size + j]
                            matrix[i * size + j] = old - factor[0] * matrix[k * size + j]
                target[item] = tirx.Cast(dtype, product[0])
            return builder.get()

    result: Any = te.extern([[batch]], [data], write, dtype=[dtype], name="det")
    return result
