"""Sums of 32-bit integers, modulo 2**32."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.rewrite import function_pass

_WORDS, _WIDE = ("int32", "uint32"), ("int64", "uint64")


def WrappingSums() -> Any:
    """A pass that computes sums of integers modulo 2**32, whatever they exceed.

    Pattern: a sum, difference or product of 32-bit integers, or vectors of them, of which at least
    one is a number from memory, and which is no index.

    Rewrite: the same of 64 bits, where it cannot overflow, whose lower half is the result.

    Why here: TVM promises LLVM that no sum of 32 bits overflows: neither one of ``int32``
    (``nsw``) nor one of ``uint32`` (``nuw``). What LLVM makes of one that does is undefined. The
    sums of exact 8-bit kernels do: those of Winograd by design
    (:func:`tvmconv.algorithms.winograd.integers.exact_below`), those of others where they begin
    with a bias that holds the data's zero point, or where a model adds ``int32`` tensors. LLVM
    makes one addition of 32 bits of it, which promises nothing. The passes before take sums as
    they were.
    """
    return function_pass("WrappingSums", _wrapping)


def _wrapping(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    found = False

    def wrap(node: Any) -> Any:
        nonlocal found
        dtype = str(node.ty.dtype)
        kind, *lanes = dtype.split("x", 1)
        if kind not in _WORDS or not (_is_data(node.a) or _is_data(node.b)):
            return node
        found = True
        # a difference of unsigned numbers may be negative, a product of them exceed 2**63
        signed = kind == _WORDS[0] or not isinstance(node, tirx.Mul)
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
    body = tvm_ffi.structural_map(func.body, rules)
    return func.with_body(body) if found else func


def _is_data(node: Any) -> bool:
    """Whether numbers from memory are in an expression whose sums have been rewritten."""
    from tvm import ir, tirx

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
    from tvm import tirx

    if not isinstance(node, tirx.Cast) or _kind(node) not in _WORDS:
        return False
    return isinstance(node.value, tirx.Add | tirx.Sub | tirx.Mul) and _kind(node.value) in _WIDE


def _kind(node: Any) -> str:
    """The type of an expression, or of its lanes."""
    return str(node.ty.dtype).partition("x")[0]


def _changed(node: Any) -> bool:
    """Whether the index of a load or a store was read, and a sum in it rewritten."""
    import tvm_ffi
    from tvm import tirx

    found: list[Any] = []
    for index in node.indices:
        tvm_ffi.structural_walk(index, (tirx.Cast, found.append))
    return any(_is_rewritten(cast) for cast in found)


def _indices(node: Any) -> list[Any]:
    """Indices as they were before their sums were rewritten: of these none may overflow."""
    import tvm_ffi
    from tvm import tirx

    def unwrap(cast: Any) -> Any:
        if not _is_rewritten(cast):
            return cast
        total = cast.value
        return type(total)(total.a.value, total.b.value)

    return [tvm_ffi.structural_map(index, (tirx.Cast, unwrap)) for index in node.indices]
