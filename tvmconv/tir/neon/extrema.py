"""The larger or smaller of two values as one instruction."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.rewrite import function_pass, is_constant

_ELEMENT = "float32"


def Extrema() -> Any:
    """A pass that asks LLVM for the extremum of two values, not for a comparison and a choice.

    Pattern: a ``Max`` or ``Min`` of float32.

    Rewrite: LLVM's ``maximum`` or ``minimum``, which is NaN where either operand is; where the
    second operand is a constant, ``maxnum`` or ``minnum``, which is that constant where the first
    one is NaN.

    Vectors of unknown length are no exception.

    Why here: TVM compiles ``max(a, b)`` to ``a > b ? a : b``. That is one instruction of x86, and
    two of AArch64, which has one for each of the functions above. A NaN becomes what it does on x86
    where one operand is a constant (:mod:`tvmconv.operators.math`); of two variables it is always
    kept. ``VectorizePixels`` comes before: it knows sums and maxima, and none of LLVM's functions.
    """
    return function_pass("neon.Extrema", _extrema)


def _extrema(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    found = False

    def replace(node: Any) -> Any:
        nonlocal found
        dtype = str(node.ty.dtype)
        if dtype.partition("x")[0] != _ELEMENT:
            return node
        found = True
        side = "max" if isinstance(node, tirx.Max) else "min"
        name = f"llvm.{side}num" if is_constant(node.b) else f"llvm.{side}imum"
        return tirx.call_llvm_pure_intrin(dtype, name, node.a, node.b)

    body = tvm_ffi.structural_map(func.body, ((tirx.Max, tirx.Min), replace))
    return func.with_body(body) if found else func
