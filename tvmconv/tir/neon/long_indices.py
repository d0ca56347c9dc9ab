"""Indices of buffers as sums of 64 bits."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.rewrite import function_pass

_LONG = "int64"


def LongIndices() -> Any:
    """A pass that computes indices in as many bits as addresses have.

    Pattern: the index of a load or a store: sums, products, minima and
    maxima of integers of 32 bits. A vector's is that of its first element.

    Rewrite: the same of 64 bits, of whose operands each is extended by itself.

    Why here: LLVM reorders sums, which takes from them the promise that they do not overflow. Of a
    loop whose first iteration is computed, like that over the rows of a kernel inside the image,
    it then extends an index in every iteration, and adds to the address what the distance of a load
    cannot hold. Sums of 64 bits are addresses that it moves ahead. Clamped coordinates are extended
    in front of their bounds: behind them that was six of 27 instructions for a 3x3 pooling window.
    """
    return function_pass("neon.LongIndices", _long_indices)


def _long_indices(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    def load(node: Any) -> Any:
        indices = _indices(node)
        return node if indices is None else tirx.BufferLoad(node.source, indices)

    def store(node: Any) -> Any:
        indices = _indices(node)
        return node if indices is None else tirx.BufferStore(node.buffer, node.value, indices)

    rules = [(ir.TensorLoad, load), (tirx.BufferStore, store)]
    return func.with_body(tvm_ffi.structural_map(func.body, rules))


def _indices(node: Any) -> list[Any] | None:
    """The longer ones of a load or a store; None where they are constants."""
    from tvm import tirx

    starts = [index.base if isinstance(index, tirx.Ramp) else index for index in node.indices]
    if all(isinstance(start, tirx.IntImm) for start in starts):
        return None
    return [_long(index) for index in node.indices]


def _long(index: Any) -> Any:
    from tvm import tirx

    if isinstance(index, tirx.Ramp):
        return tirx.Ramp(_long(index.base), _long(index.stride), index.lanes)
    if str(index.ty.dtype) != "int32":
        return index
    if isinstance(index, tirx.IntImm):
        return tirx.IntImm(_LONG, int(index))
    if isinstance(index, tirx.Add | tirx.Sub | tirx.Mul | tirx.Min | tirx.Max):
        return type(index)(_long(index.a), _long(index.b))
    return tirx.Cast(_LONG, index)
