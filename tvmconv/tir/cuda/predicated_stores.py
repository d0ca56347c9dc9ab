"""Conditional stores of accumulators by predicated instructions, without branches."""

from __future__ import annotations

from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.general.rewrite import function_pass, nodes_of

_CALLED = "tvmconv_store"
# minimum number of accumulators of a thread in a GEMM tile
_SUMS = 32
# CUDA C++ of what the pass calls; tvmconv/lab/emulation/c/cuda.h has it, too
DEFINITIONS = r"""static __device__ __forceinline__
void tvmconv_store(float *to, float value, bool inside) {
  asm volatile("{\n .reg .pred p;\n setp.ne.s32 p, %2, 0;\n @p st.global.f32 [%0], %1;\n}"
      :: "l"(__cvta_generic_to_global(to)), "f"(value), "r"((int)inside) : "memory");
}
static __device__ __forceinline__
void tvmconv_store(float *to, float4 value, bool inside) {
  asm volatile("{\n .reg .pred p;\n setp.ne.s32 p, %5, 0;\n"
      " @p st.global.v4.f32 [%0], {%1, %2, %3, %4};\n}"
      :: "l"(__cvta_generic_to_global(to)), "f"(value.x), "f"(value.y), "f"(value.z),
         "f"(value.w), "r"((int)inside) : "memory");
}
"""


def PredicatedStores() -> Any:
    """A pass that stores accumulators under a predicate at the border of the output.

    Pattern: an ``if`` without ``else`` that stores FP32 scalars or vectors to parameters. The
    values depend on a local array of accumulators and on other parameters.

    Rewrite: the values are always computed. Where the condition fails, loads read the first element
    of their parameter instead. Each store is a call of ``tvmconv_store``, one predicated
    instruction.

    Why here: before code generation. nvcc moves a thread's last FMAs into the branches, and their
    operands stay in registers until then. Tiles of 64x64 and 64x128 spilled 56 to 352 bytes.
    Tensor-core kernels do not spill.
    """
    return function_pass("cuda.PredicatedStores", _rewrite)


def calls_stores(source: str) -> bool:
    """Whether CUDA source calls the function of :data:`DEFINITIONS`."""
    return _CALLED in source


def _rewrite(func: Any) -> Any:
    if has_products(func):
        return func
    stores = nodes_of(func.body, tirx.BufferStore)

    def guarded(branch: Any) -> Any:
        then = branch.then_case
        parts = list(then.seq) if isinstance(then, tirx.SeqStmt) else [then]
        kept = [isinstance(part, tirx.Bind) or _leaves(part, stores) for part in parts]
        if branch.else_case is not None or not all(kept):
            return branch
        test = branch.condition
        found = [part if isinstance(part, tirx.Bind) else _stored(part, test) for part in parts]
        return tirx.stmt_seq(*found)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.IfThenElse, guarded)))


def _loads(value: Any) -> list[Any]:
    return nodes_of(value, ir.TensorLoad)


def _leaves(part: Any, stores: list[Any]) -> bool:
    """Whether a statement stores accumulators to a parameter, with read-only operands."""
    if not isinstance(part, tirx.BufferStore):
        return False
    loads = _loads(part.value)
    sums = [load for load in loads if str(load.source.scope()) == "local"]
    operands = [load for load in loads if str(load.source.scope()) == "global"]
    return (
        str(part.buffer.scope()) == "global"
        and str(part.buffer.dtype) == "float32"
        and any(prod(int(n) for n in load.source.shape) >= _SUMS for load in sums)
        and len(sums) + len(operands) == len(loads)
        and not any(store.buffer.same_as(load.source) for store in stores for load in operands)
    )


def _stored(store: Any, test: Any) -> Any:
    """The predicated store; its loads read the first element where the condition fails."""

    def inside(load: Any) -> Any:
        if str(load.source.scope()) != "global":
            return load
        (index,) = load.indices
        first = index.base if isinstance(index, tirx.Ramp) else index
        place = tirx.Select(test, first, tirx.IntImm(first.ty.dtype, 0))
        if isinstance(index, tirx.Ramp):
            place = tirx.Ramp(place, index.stride, index.lanes)
        return tirx.BufferLoad(load.source, [place])

    value = tvm_ffi.structural_map(store.value, (ir.TensorLoad, inside))
    (index,) = store.indices
    first = index.base if isinstance(index, tirx.Ramp) else index
    address = tirx.address_of(tirx.BufferLoad(store.buffer, [first]))
    return tirx.Evaluate(tirx.call_extern("int32", _CALLED, address, value, test))
