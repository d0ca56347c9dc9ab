"""Conditional loads by predicated instructions, without branches."""

from __future__ import annotations

from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.general.conditions import is_select, is_zero
from tvmconv.tir.general.rewrite import function_pass, nodes_of

_CALLED = "tvmconv_guarded"
# CUDA C++ of what the pass calls; tvmconv/lab/emulation/c/mma.h has it, too
DEFINITIONS = r"""static __device__ __forceinline__
float tvmconv_guarded(const float *from, bool inside) {
  float result;
  asm("{\n .reg .pred p;\n setp.ne.s32 p, %2, 0;\n mov.f32 %0, 0f00000000;\n"
      " @p ld.global.nc.f32 %0, [%1];\n}"
      : "=&f"(result) : "l"(__cvta_generic_to_global(from)), "r"((int)inside));
  return result;
}
"""


def PredicatedLoads() -> Any:
    """A pass that replaces ``condition ? load : 0`` by a predicated load.

    Pattern: ``if_then_else(test, x, 0)`` in a tensor-core kernel. ``x`` is one FP32 element of a
    parameter that the kernel only reads.

    Rewrite: a call of ``tvmconv_guarded``, one predicated instruction.

    Why here: before code generation. TVM prints such an expression as ``if`` and ``else``. Where a
    register packs two values, nvcc compiles these to branches. The main loop of 128x128 tiles had
    384 instructions for 64 FP16 products, and has 285 with this pass; for TF32 274 and 248. Other
    kernels are left out: a slice of 64x128 FP32 tiles took 3 % more instructions. There nvcc no
    longer saw which addresses differ by a constant.
    """
    return function_pass("cuda.PredicatedLoads", _rewrite)


def calls_guarded(source: str) -> bool:
    """Whether CUDA source calls the function of :data:`DEFINITIONS`."""
    return _CALLED in source


def _rewrite(func: Any) -> Any:
    if not has_products(func):
        return func
    stores = nodes_of(func.body, tirx.BufferStore)

    def guarded(call: Any) -> Any:
        if not is_select(call):
            return call
        test, load, other = call.args
        if not isinstance(load, ir.TensorLoad) or not is_zero(other):
            return call
        written = any(store.buffer.same_as(load.source) for store in stores)
        if written or str(load.source.scope()) != "global" or str(load.ty.dtype) != "float32":
            return call
        return tirx.call_pure_extern("float32", _CALLED, tirx.address_of(load), test)

    return func.with_body(tvm_ffi.structural_map(func.body, (ir.Call, guarded)))
