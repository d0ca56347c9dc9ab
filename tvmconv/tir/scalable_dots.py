"""Dot products of bytes by SVE, of vectors of a fixed length.

LLVM has ``sdot z.s, z.b, z.b`` for vectors of unknown length alone. A function of LLVM that is
inlined takes vectors of a fixed length as such; where that is the length of the registers, LLVM
needs no instruction for it. (That products are added by ``partial.reduce`` instead leaves open
which of them are added to which sum.)
"""

from __future__ import annotations

from typing import Any

# the operator's name, and the length of vectors, in bits, that it is an instruction for
SVE, SVE_BITS = "sve_sdot", 512
_NAME = "tvmconv.sve_sdot"

_IMPORTED = """
declare <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v16i32(<vscale x 4 x i32>, <16 x i32>, i64)
declare <16 x i32> @llvm.vector.extract.v16i32.nxv4i32(<vscale x 4 x i32>, i64)
declare <vscale x 4 x i32> @llvm.aarch64.sve.sdot.nxv4i32(
  <vscale x 4 x i32>, <vscale x 16 x i8>, <vscale x 16 x i8>)

define <16 x i32> @tvmconv.sve_sdot(<16 x i32> %sum, <16 x i32> %data, <16 x i32> %weight)
    alwaysinline {
  %sums = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v16i32(
    <vscale x 4 x i32> poison, <16 x i32> %sum, i64 0)
  %pixels = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v16i32(
    <vscale x 4 x i32> poison, <16 x i32> %data, i64 0)
  %outputs = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v16i32(
    <vscale x 4 x i32> poison, <16 x i32> %weight, i64 0)
  %first = bitcast <vscale x 4 x i32> %pixels to <vscale x 16 x i8>
  %second = bitcast <vscale x 4 x i32> %outputs to <vscale x 16 x i8>
  %both = call <vscale x 4 x i32> @llvm.aarch64.sve.sdot.nxv4i32(
    <vscale x 4 x i32> %sums, <vscale x 16 x i8> %first, <vscale x 16 x i8> %second)
  %result = call <16 x i32> @llvm.vector.extract.v16i32.nxv4i32(<vscale x 4 x i32> %both, i64 0)
  ret <16 x i32> %result
}
"""


def scalable_sdot(total: Any, data: Any, weight: Any) -> Any:
    """``total`` and the products of words' bytes, all signed, of vectors of :data:`SVE_BITS`."""
    from tvm import tirx

    return tirx.call_pure_extern(str(total.ty.dtype), _NAME, total, data, weight)


def imported(func: Any) -> Any:
    """A function with what :func:`scalable_sdot` calls, if it does."""
    import tvm_ffi
    from tvm import ir, tirx

    found = False

    def look(call: Any) -> None:
        nonlocal found
        found = found or (bool(call.args) and getattr(call.args[0], "value", "") == _NAME)

    tvm_ffi.structural_walk(func.body, (ir.Call, look))
    if not found:
        return func
    text = ir.StringImm(_IMPORTED)
    return func.with_body(tirx.AttrStmt("default", "pragma_import_llvm", text, func.body))
