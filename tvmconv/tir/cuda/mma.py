"""Tensor-core instructions as tensor intrinsics, and how kernels call them.

TVM's intrinsics for ``mma.sync`` lack TF32, and load their operands by ``ldmatrix``. These
intrinsics use fragments in registers of a warp (TVM's scope ``warp``), in the order of
:mod:`tvmconv.algorithms.cuda.fragments`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.s_tir import TensorIntrin

from tvmconv.algorithms.cuda import fragments
from tvmconv.algorithms.cuda.fragments import of_columns, of_sums, of_weights
from tvmconv.algorithms.cuda.precision import Precision
from tvmconv.tir.general.rewrite import function_pass, nodes_of, transformed
from tvmconv.tvm_api.script import T

# names of the instruction's operand type in PTX, with its shape
_SHAPES = {"tf32": ("m16n8k8", "tf32"), "fp16": ("m16n8k16", "fp16")}
_CALL = "tirx.ptx_legacy.mma"
# CUDA C++ of what kernels call; tvmconv/lab/emulation/c/mma.h has all of it, too
_ROUNDING = (
    "static __device__ __forceinline__ float tvmconv_tf32(float x) {\n"
    "  uint result;\n"
    '  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(result) : "f"(x));\n'
    "  return __uint_as_float(result);\n}\n"
    "static __device__ __forceinline__ uint tvmconv_halves(float low, float high) {\n"
    "  uint result;\n"
    '  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));\n'
    "  return result;\n}\n"
)


def _call_of(name: str, shape: str, kind: str, word: str, bits: str) -> str:
    """The function of one instruction, ``c += a * b``."""
    inputs = [f'"r"({bits}(a[{i}]))' for i in range(4)] + [f'"r"({bits}(b[{i}]))' for i in range(2)]
    sums = ", ".join(f'"+f"(c[{i}])' for i in range(4))
    # volatile: all lanes of a warp take part, so the compiler must not move it into a branch
    return (
        f"static __device__ __forceinline__ void tvmconv_mma_{name}"
        f"(float *c, const {word} *a, const {word} *b) {{\n"
        f'  asm volatile("mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 "\n'
        '      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"\n'
        f"      : {sums}\n"
        f"      : {', '.join(inputs)});\n}}\n"
    )


DEFINITIONS = (
    _ROUNDING
    + _call_of("tf32", "m16n8k8", "tf32", "float", "__float_as_uint")
    + _call_of("fp16", "m16n8k16", "f16", "uint", "")
)


@cache
def mma_intrinsic(precision: Precision) -> str:
    """The name of a precision's tensor intrinsic, which is registered on first use."""
    name = f"tvmconv.mma.{precision.name}"
    TensorIntrin.register(name, *_functions(precision), override=True)
    return name


def _functions(precision: Precision) -> tuple[Any, Any]:
    """The computation of the instruction in TIR, and the call that replaces it."""
    word, product = precision.dword, precision.product
    shape, kind = _SHAPES[precision.name]
    rows, columns, words = fragments.ROWS, fragments.COLUMNS, fragments.DWORDS
    lanes, own = fragments.LANES, fragments.WEIGHTS
    column_words, sums = fragments.COLUMN_DWORDS, fragments.SUMS

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def description(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (lanes, own), word, align=64, offset_factor=1, scope="warp")
        B = T.match_buffer(b, (lanes, column_words), word, align=64, offset_factor=1, scope="warp")
        C = T.match_buffer(c, (lanes, sums), "float32", align=64, offset_factor=1, scope="warp")
        with T.sblock("root"):
            T.reads(C[0:lanes, 0:sums], A[0:lanes, 0:own], B[0:lanes, 0:column_words])
            T.writes(C[0:lanes, 0:sums])
            for i, j, k in T.grid(rows, columns, words):
                with T.sblock("C"):
                    vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                    T.reads(C[of_sums(vi, vj)], A[of_weights(vi, vk)], B[of_columns(vk, vj)])
                    T.writes(C[of_sums(vi, vj)])
                    C[of_sums(vi, vj)] = C[of_sums(vi, vj)] + product(
                        A[of_weights(vi, vk)], B[of_columns(vk, vj)]
                    )

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator]
    def call(a: T.handle, b: T.handle, c: T.handle) -> None:
        A = T.match_buffer(a, (lanes, own), word, align=64, offset_factor=1, scope="warp")
        B = T.match_buffer(b, (lanes, column_words), word, align=64, offset_factor=1, scope="warp")
        C = T.match_buffer(c, (lanes, sums), "float32", align=64, offset_factor=1, scope="warp")
        with T.sblock("root"):
            T.reads(C[0:lanes, 0:sums], A[0:lanes, 0:own], B[0:lanes, 0:column_words])
            T.writes(C[0:lanes, 0:sums])
            for lane in T.thread_binding(0, lanes, "threadIdx.x"):
                T.evaluate(
                    T.ptx_legacy.mma(
                        shape,
                        "row",
                        "col",
                        kind,
                        kind,
                        "fp32",
                        A.data,
                        A.elem_offset + lane * own,
                        B.data,
                        B.elem_offset + lane * column_words,
                        C.data,
                        C.elem_offset + lane * sums,
                        False,
                        dtype="float32",
                    )
                )

    return description, call


def has_fragments(func: Any) -> bool:
    """Whether a lowered function holds fragments of a warp."""
    found = nodes_of(func.body, tirx.AllocBuffer)
    return any(str(allocated.buffer.scope()) == "warp" for allocated in found)


def Fragments() -> Any:
    """A pass that gives each lane its own registers of fragments.

    Pattern: buffers of the scope ``warp``.

    Rewrite: TVM's LowerWarpMemory, repeated because each run lowers one of several buffers.

    Why here: in kernels, whose threads are known, and before code generation.
    """

    def rewrite(func: Any) -> Any:
        while has_fragments(func):
            func = transformed(func, tirx.transform.LowerWarpMemory())
        return func

    return function_pass("cuda.Fragments", rewrite)


def MmaCalls() -> Any:
    """A pass that calls the functions of :data:`DEFINITIONS` in place of inline assembly.

    Pattern: a call of TVM's intrinsic for ``mma.sync`` with one of the shapes used here.

    Rewrite: a call of the function with the addresses of accumulators, weights and columns.

    Why here: after all passes that know the intrinsic. TVM's code generator prints the assembly
    into each kernel. The emulator replaces functions by name.
    """

    def call_of(call: Any) -> Any:
        if getattr(call.op, "name", "") != _CALL:
            return call
        name = next(n for n, given in _SHAPES.items() if given[0] == call.args[0].value)
        a, b, c = (
            tirx.address_of(tirx.BufferLoad(call.args[place].args[0], [call.args[place + 1]]))
            for place in (6, 8, 10)
        )
        return tirx.call_extern("void", f"tvmconv_mma_{name}", c, a, b)

    def rewrite(func: Any) -> Any:
        return func.with_body(tvm_ffi.structural_map(func.body, (ir.Call, call_of)))

    return function_pass("cuda.MmaCalls", rewrite)


def has_products(func: Any) -> bool:
    """Whether a function uses tensor cores; valid before :func:`MmaCalls`."""
    found = nodes_of(func.body, ir.Call)
    return any(getattr(call.op, "name", "") == _CALL for call in found)


def calls_mma(source: str) -> bool:
    """Whether CUDA source calls a function of :data:`DEFINITIONS`."""
    return "tvmconv_mma_" in source
