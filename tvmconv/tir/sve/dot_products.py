"""INT8 dot products by SVE, for vectors of fixed length.

LLVM has ``sdot z.s, z.b, z.b`` only for scalable vectors. Inlined LLVM functions insert vectors of
fixed length into scalable ones: into the whole register, or into its first 128 bits, which are a
NEON register. The remaining lanes are not read. Neither insertion takes an instruction. LLVM's
``partial.reduce`` is not used, because it does not define which products each lane sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import Template
from typing import Any

from tvm import tirx

from tvmconv.tir.general.dot_products import arithmetic, dot_product_pass
from tvmconv.tir.general.llvm_functions import called, importing

# the operator's name
SVE = "sve_sdot"
# the LLVM functions: lanes, and the lane of data that multiplies follow this name
FUNCTIONS = "tvmconv.sve_sdot"
# vector lengths in lanes with an instruction: any SVE, and 512-bit SVE
_SHORT, _LONG = 4, 16

_INTRINSICS = """
declare <vscale x 4 x i32> @llvm.aarch64.sve.sdot.nxv4i32(
  <vscale x 4 x i32>, <vscale x 16 x i8>, <vscale x 16 x i8>)
declare <vscale x 4 x i32> @llvm.aarch64.sve.sdot.lane.nxv4i32(
  <vscale x 4 x i32>, <vscale x 16 x i8>, <vscale x 16 x i8>, i32)
"""
_MOVES = Template("""
declare <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v${n}i32(
  <vscale x 4 x i32>, <$n x i32>, i64)
declare <$n x i32> @llvm.vector.extract.v${n}i32.nxv4i32(<vscale x 4 x i32>, i64)
""")
_FUNCTION = Template("""
define <$n x i32> @$name(<$n x i32> %sum, <$n x i32> %first, <$n x i32> %second) {
  %sums = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v${n}i32(
    <vscale x 4 x i32> poison, <$n x i32> %sum, i64 0)
  %one = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v${n}i32(
    <vscale x 4 x i32> poison, <$n x i32> %first, i64 0)
  %other = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v${n}i32(
    <vscale x 4 x i32> poison, <$n x i32> %second, i64 0)
  %a = bitcast <vscale x 4 x i32> %one to <vscale x 16 x i8>
  %b = bitcast <vscale x 4 x i32> %other to <vscale x 16 x i8>
  %added = call <vscale x 4 x i32> @llvm.aarch64.sve.sdot.$form(
    <vscale x 4 x i32> %sums, <vscale x 16 x i8> %a, <vscale x 16 x i8> %b$lane)
  %result = call <$n x i32> @llvm.vector.extract.v${n}i32.nxv4i32(<vscale x 4 x i32> %added, i64 0)
  ret <$n x i32> %result
}
""")


def DotProducts() -> Any:
    """A pass that lowers INT8 dot products of fixed length to SVE's ``sdot``.

    Pattern: ``accumulator + dot(data, weight)`` of int32 or vectors of them; see
    :func:`tvmconv.tir.x86.dot_products.DotProducts`.

    Rewrite: a call of an inlined LLVM function. Other vector lengths and scalars become plain
    arithmetic.

    Why here: as NEON's pass of this name, which skips this operator.
    """
    return dot_product_pass("sve.DotProducts", _emit, after=_imported)


def _emit(total: Any, operands: Sequence[Any], name: str) -> Any:
    if name != SVE:
        return None
    data, weight = operands
    if int(total.ty.dtype.lanes) not in (_SHORT, _LONG):
        return total + arithmetic(data, weight, 8)
    return _sdot(total, data, weight)


def _sdot(total: Any, data: Any, weight: Any) -> Any:
    """``total`` plus the products of signed bytes; the data may be one lane of a vector."""
    dtype, lanes = str(total.ty.dtype), int(total.ty.dtype.lanes)
    name = f"{FUNCTIONS}_{lanes}"
    lane = _lane(data) if lanes == _SHORT else None
    if lane is not None:
        return tirx.call_pure_extern(dtype, f"{name}_{lane}", total, weight, data.vectors[0])
    return tirx.call_pure_extern(dtype, name, total, weight, data)


def _lane(data: Any) -> int | None:
    """The lane that a shuffle broadcasts; None for other vectors."""
    if not isinstance(data, tirx.Shuffle) or len(data.vectors) != 1:
        return None
    lane, *others = {int(index) for index in data.indices}
    one = not others and int(data.vectors[0].ty.dtype.lanes) == _SHORT
    return lane if one else None


def _imported(func: Any) -> Any:
    """A function together with the LLVM functions that it calls."""
    names = called(func, FUNCTIONS)
    return importing(func, _module(names)) if names else func


def _module(names: Iterable[str]) -> str:
    """The LLVM source of some functions."""
    parts = {_INTRINSICS: None}
    for name in names:
        lanes, *lane = name.removeprefix(FUNCTIONS + "_").split("_")
        parts[_MOVES.substitute(n=lanes)] = None
        form = "lane.nxv4i32" if lane else "nxv4i32"
        number = "".join(f", i32 {index}" for index in lane)
        parts[_FUNCTION.substitute(n=lanes, name=name, form=form, lane=number)] = None
    return "".join(parts)
