"""Computes buffer indices in 64 bits."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import function_pass

_LONG = "int64"


def LongIndices() -> Any:
    """A pass that widens indices to the width of addresses.

    Pattern: the index of a load or a store, which consists of sums, products, minima and maxima of
    32-bit integers. For vectors, the index of the first element.

    Rewrite: the same in 64 bits, with each operand extended separately.

    Why here: LLVM reorders sums, after which it no longer knows that they do not overflow. A loop
    over kernel rows inside the image has a computed begin. There LLVM extends an index in every
    iteration, and adds offsets that a load cannot encode. LLVM hoists 64-bit sums as addresses.
    Clamped coordinates are extended before their bounds. Extension after the bounds
    took six of 27 instructions for a 3x3 pooling window.
    """
    return function_pass("neon.LongIndices", _long_indices)


def _long_indices(func: Any) -> Any:
    def load(node: Any) -> Any:
        indices = _indices(node)
        return node if indices is None else tirx.BufferLoad(node.source, indices)

    def store(node: Any) -> Any:
        indices = _indices(node)
        return node if indices is None else tirx.BufferStore(node.buffer, node.value, indices)

    rules = [(ir.TensorLoad, load), (tirx.BufferStore, store)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules))


def _indices(node: Any) -> list[Any] | None:
    """The indices to widen in a load or a store; None if they are constants."""
    starts = [index.base if isinstance(index, tirx.Ramp) else index for index in node.indices]
    if all(isinstance(start, tirx.IntImm) for start in starts):
        return None
    return [_long(index) for index in node.indices]


def _long(index: Any) -> Any:
    if isinstance(index, tirx.Ramp):
        return tirx.Ramp(_long(index.base), _long(index.stride), index.lanes)
    if str(index.ty.dtype) != "int32":
        return index
    if isinstance(index, tirx.IntImm):
        return tirx.IntImm(_LONG, int(index))
    if isinstance(index, tirx.Add | tirx.Sub | tirx.Mul | tirx.Min | tirx.Max):
        return type(index)(_long(index.a), _long(index.b))
    return tirx.Cast(_LONG, index)
