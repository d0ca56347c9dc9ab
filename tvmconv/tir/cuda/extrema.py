"""The larger or smaller of two values on GPUs, NaN included."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.general.rewrite import function_pass, is_constant

_ELEMENT = "float32"
# CUDA C++ of the functions that the pass calls; tvmconv/lab/emulation/c/cuda.h has them, too
DEFINITIONS = "".join(
    f"static __device__ __forceinline__ float tvmconv_{side}imum(float a, float b) {{\n"
    f"  float result;\n"
    f'  asm("{side}.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));\n'
    "  return result;\n}\n"
    for side in ("max", "min")
)


def CudaExtrema() -> Any:
    """A pass that has extrema of two variables keep the NaN of either.

    Pattern: a ``Max`` or ``Min`` of float32 whose second operand is no constant.

    Rewrite: a call of a function of :data:`DEFINITIONS`, which is one instruction.

    Why here: CUDA's ``max`` returns the number beside a NaN, so that a ReLU would hide it. That is
    right where the second operand is a constant, see :class:`tvmconv.tir.neon.extrema.Extrema`,
    whose results these are. Behind LowerThreadAllreduce, which writes the extrema of reductions
    out.
    """
    return function_pass("CudaExtrema", _extrema)


def _extrema(func: Any) -> Any:
    import tvm_ffi
    from tvm import tirx

    found = False

    def replace(node: Any) -> Any:
        nonlocal found
        dtype = str(node.ty.dtype)
        if dtype.partition("x")[0] != _ELEMENT or is_constant(node.b):
            return node
        found = True
        side = "max" if isinstance(node, tirx.Max) else "min"
        return tirx.call_pure_extern(dtype, f"tvmconv_{side}imum", node.a, node.b)

    body = tvm_ffi.structural_map(func.body, ((tirx.Max, tirx.Min), replace))
    return func.with_body(body) if found else func
