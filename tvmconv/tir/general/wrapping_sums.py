"""Arithmetic of 32-bit integers modulo 2**32."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.general.rewrite import function_pass, map_nodes, nodes_of

_NARROW, _WIDE = ("int32", "uint32"), ("int64", "uint64")


def WrappingSums() -> Any:
    """A pass that computes int32 arithmetic modulo 2**32, where overflow is defined.

    Pattern: a sum, difference or product of 32-bit integers or vectors that depends on data from
    memory, and is not an index.

    Rewrite: the same in 64 bits, where it cannot overflow. The low 32 bits are the result.

    Why here: TVM marks 32-bit arithmetic as free of overflow (``nsw`` for ``int32``, ``nuw`` for
    ``uint32``). LLVM's result of an overflow is undefined. Exact INT8 kernels do overflow:

    - Winograd by design (:func:`tvmconv.algorithms.winograd.integers.exact_below`),
    - others if a bias holds the correction of the zero point,
    - models that add ``int32`` tensors.

    LLVM compiles the rewritten sum to one 32-bit addition without the marks. The pass runs late,
    because earlier passes match the original sums.
    """
    return function_pass("WrappingSums", _wrapping)


def _wrapping(func: Any) -> Any:
    if not _may_hold_integers(func):
        return func

    def wrap(node: Any) -> Any:
        dtype = str(node.ty.dtype)
        kind, *lanes = dtype.split("x", 1)
        if kind not in _NARROW or not (_is_data(node.a) or _is_data(node.b)):
            return node
        # a difference of unsigned numbers may be negative; their product may exceed 2**63
        signed = kind == _NARROW[0] or not isinstance(node, tirx.Mul)
        wide = "x".join([_WIDE[0] if signed else _WIDE[1], *lanes])
        return tirx.Cast(dtype, type(node)(tirx.Cast(wide, node.a), tirx.Cast(wide, node.b)))

    def load(node: Any) -> Any:
        return tirx.BufferLoad(node.source, _indices(node)) if _changed(node) else node

    def store(node: Any) -> Any:
        if not _changed(node):
            return node
        return tirx.BufferStore(node.buffer, node.value, _indices(node))

    rules = [
        ((tirx.Add, tirx.Sub, tirx.Mul), wrap),
        (ir.TensorLoad, load),
        (tirx.BufferStore, store),
    ]
    return map_nodes(func, rules)


def _may_hold_integers(func: Any) -> bool:
    """Whether a function may compute with integers that come from memory.

    Kernels of floating-point numbers have thousands of sums, all of them in indices.
    """
    buffers = [*func.params, *(node.buffer for node in nodes_of(func.body, tirx.AllocBuffer))]
    if any("int" in str(buffer.ty.dtype) for buffer in buffers):
        return True
    made = nodes_of(func.body, (tirx.Cast, ir.Call))
    return any(_kind(node) in _NARROW and _is_data(node) for node in made)


def _is_data(node: Any) -> bool:
    """Whether an expression, with rewritten sums, depends on numbers from memory."""
    if isinstance(node, ir.TensorLoad) or _is_rewritten(node):
        return True
    if isinstance(node, tirx.Cast | tirx.Broadcast):
        return _is_data(node.value)
    if isinstance(node, ir.Call):
        return any(_is_data(argument) for argument in node.args)
    if isinstance(node, tirx.Select):
        return _is_data(node.true_value) or _is_data(node.false_value)
    if isinstance(node, tirx.Shuffle):
        return any(_is_data(vector) for vector in node.vectors)
    return hasattr(node, "a") and hasattr(node, "b") and (_is_data(node.a) or _is_data(node.b))


def _is_rewritten(node: Any) -> bool:
    if not isinstance(node, tirx.Cast) or _kind(node) not in _NARROW:
        return False
    return isinstance(node.value, tirx.Add | tirx.Sub | tirx.Mul) and _kind(node.value) in _WIDE


def _kind(node: Any) -> str:
    """The type of an expression, or of its lanes."""
    return str(getattr(node.ty, "dtype", "")).partition("x")[0]


def _changed(node: Any) -> bool:
    """Whether the index of a load or a store had a sum that was rewritten."""
    return any(map(_has_rewritten, node.indices))


def _has_rewritten(index: Any) -> bool:
    # by hand: most indices are a number or a short sum, and there are thousands
    if isinstance(index, tirx.IntImm | ir.Var):
        return False
    if isinstance(index, tirx.Ramp):
        return _has_rewritten(index.base) or _has_rewritten(index.stride)
    if isinstance(index, tirx.Add | tirx.Sub | tirx.Mul):
        return _has_rewritten(index.a) or _has_rewritten(index.b)
    return any(map(_is_rewritten, nodes_of(index, tirx.Cast)))


def _indices(node: Any) -> list[Any]:
    """Indices with their original sums, which must not overflow."""

    def unwrap(cast: Any) -> Any:
        if not _is_rewritten(cast):
            return cast
        total = cast.value
        return type(total)(total.a.value, total.b.value)

    return [tvm_ffi.structural_map(index, (tirx.Cast, unwrap)) for index in node.indices]
