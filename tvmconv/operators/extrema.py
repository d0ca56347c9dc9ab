"""The smallest and the largest element of a tensor, in one pass over memory."""

from __future__ import annotations

from math import inf
from typing import Any

from tvmconv.operators.row_vectors import RowVectors
from tvmconv.operators.vector_loops import one_task, scratch, shared
from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.ir_builder import IRBuilder, T
from tvmconv.tvm_api.types import Tensor

# elements that both comparisons read while they are in L1
_BLOCK = 4096
# blocks that a thread takes at once
_BLOCKS = 8


def extrema(data: Tensor, lanes: int) -> list[Tensor]:
    """The minimum and the maximum of ``(size,)`` elements of float32, each of shape ().

    NaN is never found. Nothing else gives the infinities that they begin with.
    """
    size, dtype = int(data.shape[0]), str(data.dtype)
    block = min(size, _BLOCK)
    count = -(-size // block)
    tasks = -(-count // _BLOCKS)

    def write(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            source, *results = map(T.buffer_proxy, (*ins, *outs))
            with one_task():
                sides = [
                    (scratch(tasks, dtype), tirx.const(start, dtype), better)
                    for start, better in ((inf, _smaller), (-inf, _larger))
                ]
                vectors = RowVectors(block, lanes)
                with shared(tasks) as task:
                    for found, start, _ in sides:
                        found[task] = start
                    with T.serial(0, tirx.min(_BLOCKS, count - task * _BLOCKS)) as number:
                        # the last block overlaps the previous one, whose elements are known
                        first = tirx.min((task * _BLOCKS + number) * block, size - block)
                        for found, start, better in sides:
                            best = vectors.reduced(start, lambda i: source[first + i], better)
                            found[task] = better(found[task], best)
                for result, (found, start, better) in zip(results, sides, strict=True):
                    result[()] = start
                    with T.serial(0, tasks) as task:
                        result[()] = better(result[()], found[task])
            return builder.get()

    return te.extern([(), ()], [data], write, dtype=[dtype, dtype], name="extrema")


def _smaller(kept: Any, own: Any) -> Any:
    return tirx.Select(own < kept, own, kept)


def _larger(kept: Any, own: Any) -> Any:
    return tirx.Select(own > kept, own, kept)
