"""Functions as C sees them: ``int32_t kernel(void *a, void *b, ...)`` and nothing around it.

TVM's own form, ``MakePackedAPI``, takes tensors in structs and checks each of their fields at every
call. In a compiled network shapes, types and places are known when it is built, and the checks
would be most of the code of a small kernel and most of the time of a tiny one.
"""

from __future__ import annotations

from typing import Any

# the alignment in bytes that a bare function may assume of its arguments, see `NATURAL`
ALIGNMENT = 64

# Attribute of a function: indices of the parameters that are aligned to their elements only.
NATURAL = "tvmconv.natural"
# Attribute of a function that TVM's runtime calls, in a module of functions in the bare form.
PACKED = "tvmconv.packed"
_CPU = 1  # kDLCPU


def CFunctions() -> Any:
    """A pass that gives functions the form in which C calls them, the last of the list.

    Pattern: a function with a symbol, whose parameters are buffers.

    Rewrite: a pointer for each buffer, in order; the result is 0, or what a parallel loop returned
    that is not 0. Pointers are assumed to be multiples of :data:`ALIGNMENT` but for those that the
    attribute :data:`NATURAL` lists. Scratch memory and threads come from whoever defines
    ``__TVMBackendAllocWorkspace``, ``__TVMBackendFreeWorkspace`` and
    ``__TVMBackendParallelLaunch``.

    Why here: in place of TVM's passes from ``AnnotateEntryFunc`` on, which make functions that
    take tensors in structs and check every field of them in each call.
    """
    from tvm import tirx

    def apply(func: Any, _mod: Any, _context: Any) -> Any:
        return _bare(func) if func.attrs and "global_symbol" in func.attrs else func

    return tirx.transform.prim_func_pass(apply, opt_level=0, name="tvmconv.CFunctions")


def _bare(func: Any) -> Any:
    from tvm import ir, tirx

    natural = {int(index) for index in func.attrs.get(NATURAL, ())}
    # which device the scratch memory is for; it is given back where these end, before the return
    body = func.body
    for key, value in (("device_type", _CPU), ("device_id", 0)):
        body = tirx.AttrStmt("default", key, tirx.IntImm("int32", value), body)
    body = tirx.SeqStmt([body, tirx.Return(tirx.IntImm("int32", 0))])
    declared, pointers = [], []
    for index, buffer in enumerate(func.params):
        # of the function's signature the pipeline leaves buffers alone
        element = ir.PrimType(str(buffer.ty.dtype))
        pointer = ir.Var(f"{buffer.name}_data", ir.PointerType(element, "global"))
        pointers.append(pointer)
        if isinstance(buffer.elem_offset, tirx.Var):
            # te.extern leaves the start of its operands open, which a packed call reads
            zero = tirx.IntImm(str(buffer.elem_offset.ty.dtype), 0)
            declared.append(tirx.Bind(buffer.elem_offset, zero))
        declared.append(tirx.DeclBuffer(buffer, data=pointer))
        if index not in natural:
            bytes_ = tirx.IntImm("int32", ALIGNMENT)
            body = tirx.AttrStmt(pointer, "storage_alignment", bytes_, body)
    body = tirx.SeqStmt([*declared, body])
    return tirx.PrimFunc(pointers, body, ir.PrimType("int32"), attrs=func.attrs)
