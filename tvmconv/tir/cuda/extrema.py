"""Maximum and minimum on GPUs that propagate NaN."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import function_pass, is_constant, map_nodes

_ELEMENT = "float32"
# CUDA C++ of the functions that the pass calls; tvmconv/lab/emulation/c/cuda.h has them, too
DEFINITIONS = "".join(
    f"static __device__ __forceinline__ float tvmconv_{side}imum(float a, float b) {{\n"
    f"  float result;\n"
    f'  asm("{side}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));\n'
    "  return result;\n}\n"
    for side in ("max", "min")
)


def Extrema() -> Any:
    """A pass that makes maxima and minima of two variables propagate NaN.

    Pattern: a ``Max`` or ``Min`` of FP32 whose second operand is not a constant.

    Rewrite: a call of a function of :data:`DEFINITIONS`, which is one instruction.

    Why here: CUDA's ``max`` of a number and NaN returns the number, so that a ReLU would hide NaN.
    A constant second operand needs no change. :class:`tvmconv.tir.neon.extrema.Extrema` gives the
    same results. The pass runs after LowerThreadAllreduce, which expands reductions to extrema.
    """
    return function_pass("cuda.Extrema", _extrema)


def _extrema(func: Any) -> Any:
    def replace(node: Any) -> Any:
        dtype = str(node.ty.dtype)
        if dtype.partition("x")[0] != _ELEMENT or is_constant(node.b):
            return node
        side = "max" if isinstance(node, tirx.Max) else "min"
        return tirx.call_pure_extern(dtype, f"tvmconv_{side}imum", node.a, node.b)

    return map_nodes(func, ((tirx.Max, tirx.Min), replace))
