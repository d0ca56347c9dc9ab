"""Kernels as plain C functions, ``int32_t kernel(void *a, void *b, ...)``.

TVM's own form, ``MakePackedAPI``, passes tensors as structs and checks each field at every call. A
compiled network knows shapes, types and addresses at build time. The checks would be most of the
code of a small kernel, and most of the run time of a tiny one.
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

# alignment in bytes that a C function assumes for its arguments; `NATURAL` lists exceptions
ALIGNMENT = 64

# Attribute of a function: indices of parameters that are only aligned to their elements.
NATURAL = "tvmconv.natural"
# Attribute of a function that TVM's runtime calls, in a module of C functions.
PACKED = "tvmconv.packed"
_CPU = 1  # kDLCPU


def CFunctions() -> Any:
    """The last pass: it gives functions the calling convention of C.

    Pattern: a function with a symbol, whose parameters are buffers.

    Rewrite: one pointer for each buffer, in order. The result is 0, or the nonzero result of a
    parallel loop. Pointers are assumed to be multiples of :data:`ALIGNMENT`. The attribute
    :data:`NATURAL` lists exceptions. The program provides scratch memory and threads by
    ``__TVMBackendAllocWorkspace``, ``__TVMBackendFreeWorkspace`` and
    ``__TVMBackendParallelLaunch``.

    Why here: it replaces TVM's passes from ``AnnotateEntryFunc`` on. Those make functions that
    take tensors as structs, and check every field in each call.
    """

    def apply(func: Any, _mod: Any, _context: Any) -> Any:
        return _bare(func) if func.attrs and "global_symbol" in func.attrs else func

    return tirx.transform.prim_func_pass(apply, opt_level=0, name="tvmconv.CFunctions")


def _bare(func: Any) -> Any:
    natural = {int(index) for index in func.attrs.get(NATURAL, ())}
    # the device of the scratch memory, which is freed at the end of these scopes
    body = func.body
    for key, value in (("device_type", _CPU), ("device_id", 0)):
        body = tirx.AttrStmt("default", key, tirx.IntImm("int32", value), body)
    body = tirx.SeqStmt([body, tirx.Return(tirx.IntImm("int32", 0))])
    declared, pointers = [], []
    for index, buffer in enumerate(func.params):
        # the pipeline keeps only buffers of the function's signature
        element = ir.PrimType(str(buffer.ty.dtype))
        pointer = ir.Var(f"{buffer.name}_data", ir.PointerType(element, "global"))
        pointers.append(pointer)
        if isinstance(buffer.elem_offset, tirx.Var):
            # te.extern leaves the offset of its operands open, which only a packed call reads
            zero = tirx.IntImm(str(buffer.elem_offset.ty.dtype), 0)
            declared.append(tirx.Bind(buffer.elem_offset, zero))
        declared.append(tirx.DeclBuffer(buffer, data=pointer))
        if index not in natural:
            bytes_ = tirx.IntImm("int32", ALIGNMENT)
            body = tirx.AttrStmt(pointer, "storage_alignment", bytes_, body)
    body = tirx.SeqStmt([*declared, body])
    return tirx.PrimFunc(pointers, body, ir.PrimType("int32"), attrs=func.attrs)
