"""Maximum and minimum as one instruction."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import function_pass, is_constant, map_nodes

_ELEMENT = "float32"


def Extrema() -> Any:
    """A pass that lowers extrema to LLVM's intrinsics, not to a comparison and a selection.

    Pattern: a ``Max`` or ``Min`` of FP32, also of scalable vectors.

    Rewrite: LLVM's ``maximum`` or ``minimum``, which propagates NaN of either operand. If the
    second operand is a constant: ``maxnum`` or ``minnum``, which returns the constant if the first
    operand is NaN.

    Why here: TVM compiles ``max(a, b)`` to ``a > b ? a : b``. That is one instruction on x86, but
    two on AArch64, which has an instruction for each of the functions above. With a constant, NaN
    gives the same result as on x86 (:mod:`tvmconv.operators.math`). With two variables, NaN is
    always kept. The pass runs after ``VectorizePixels``, which does not know LLVM's functions.
    """
    return function_pass("neon.Extrema", _extrema)


def _extrema(func: Any) -> Any:
    def replace(node: Any) -> Any:
        dtype = str(node.ty.dtype)
        if dtype.partition("x")[0] != _ELEMENT:
            return node
        side = "max" if isinstance(node, tirx.Max) else "min"
        name = f"llvm.{side}num" if is_constant(node.b) else f"llvm.{side}imum"
        return tirx.call_llvm_pure_intrin(dtype, name, node.a, node.b)

    return map_nodes(func, ((tirx.Max, tirx.Min), replace))
