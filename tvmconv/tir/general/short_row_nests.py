"""Blocks over rows that are shorter than vectors, and the types of their elements in memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import ir, sym, tirx

from tvmconv.tir.general.rewrite import BlockAxis, item_bytes, nodes_of

# LLVM's vectors of truth values are not those in memory, which are bytes
TRUTH, BYTE = "bool", "uint8"


@dataclass(frozen=True)
class Rows:
    """``store[outer..., rows, inner...]`` over a dense result, of which ``inner`` are one row."""

    store: Any
    outer: list[BlockAxis]
    rows: BlockAxis
    inner: list[BlockAxis]

    @property
    def length(self) -> int:
        """Elements of a row."""
        return prod(axis.extent for axis in self.inner)


def widest(store: Any) -> int:
    """Bytes of an element of the result. Truth values take the bytes of their widest operand."""
    dtypes = [str(store.buffer.dtype)]
    if dtypes == [TRUTH]:
        dtypes += [str(load.source.dtype) for load in nodes_of(store.value, ir.TensorLoad)]
    return max(map(item_bytes, dtypes))


def rows_of(store: Any, axes: list[BlockAxis], lanes: int, longest: int) -> Rows | None:
    """The function by rows; None if rows are long or the result is not dense."""
    if len(store.indices) != len(axes) or not axes or axes[-1].extent >= lanes:
        return None
    first = len(axes) - 1
    while first > 1 and prod(axis.extent for axis in axes[first - 1 :]) < longest:
        first -= 1
    if first < 1:
        return None
    dense = all(
        index.same_as(axis.var) and int(size) == axis.extent
        for index, axis, size in zip(
            store.indices[first:], axes[first:], store.buffer.shape[first:], strict=True
        )
    )
    # other rows than these may be written elsewhere
    analyzer = sym.Analyzer()
    shifts = (
        analyzer.simplify(index - axis.var)
        for index, axis in zip(store.indices[:first], axes[:first], strict=True)
    )
    if not dense or not all(isinstance(shift, tirx.IntImm) for shift in shifts):
        return None
    return Rows(store, axes[: first - 1], axes[first - 1], axes[first:])


def stored(buffer: Any) -> str:
    """The type of a buffer's elements in memory."""
    return BYTE if str(buffer.dtype) == TRUTH else str(buffer.dtype)


def is_true(byte: Any) -> Any:
    """The truth value of a byte."""
    return tirx.NE(byte, tirx.IntImm(BYTE, 0))
