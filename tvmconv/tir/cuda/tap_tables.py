"""Finds the kernel element (tap) of a slice in a constant table, and reads zeros as padding.

This is the K offset table of implicit GEMM. The channels and the tap of a slice depend on the slice
alone, and are known when the kernel is generated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.algorithms.cuda.slices import MOST_FORMS, MOST_ZEROS
from tvmconv.tir.cuda.loop_terms import loop_terms, parts_of, slice_products, total_of
from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.cuda.threads import bound_values, kernel_analyzer, thread_extents
from tvmconv.tir.general.conditions import conjuncts, is_select, is_zero
from tvmconv.tir.general.rewrite import (
    function_pass,
    local_buffer,
    nodes_of,
    rebuilt,
    repeated,
    substitute,
    uses,
    variables,
)

_CALLED = "tvmconv_tap"
_ZEROS = "tvmconv_zeros"
# attributes of kernels: the text of the tables, and the length of the array of zeros
TABLES, ZEROS = "tvmconv.tap_tables", "tvmconv.zeros"
# CUDA C++ of what the pass calls; tvmconv/lab/emulation/c/cuda.h has it, too
_DEFINITIONS = f"""template <const int2 *table, const float *zeros, bool apart>
static __device__ __forceinline__
const float *{_CALLED}(const float *data, int first, int inside, int slice) {{
  const int2 tap = table[slice];
  const float *from = apart ? data + first + tap.x : data + (first + tap.x);
  return inside & tap.y ? from : zeros;
}}
"""
# constant memory for the tables of a module, and bytes of a row
_CONSTANT_BYTES, _ROW_BYTES = 60 << 10, 8
_MOST_ROWS = 4096
# with more products a slice, a 64x64 tile spilled 24 bytes if the address was one sum. Smaller
# slices took two instructions more if the address of the thread and of the tap stayed separate
_MANY_PRODUCTS = 1024


def TapTables() -> Any:
    """A pass that reads the address and the validity of a slice's tap from a table.

    Pattern: ``if_then_else(test, x, 0)`` in a loop over ``v`` with a barrier. ``x`` is an FP32
    scalar or vector of a parameter that the kernel only reads. Its address is a sum of

    - terms of ``v``, and of the part of the reduction that a block computes,
    - loop-invariant terms,
    - the position within a slice.

    ``test`` is the same for all positions, and takes at most
    :data:`~tvmconv.algorithms.cuda.slices.MOST_FORMS` forms. Tensor-core kernels and contiguous
    vectors are left out: none was compiled with the pass.

    Rewrite: before the loop, each thread evaluates the forms of the test to a bit mask. An
    iteration reads its offset and the bit of its form from a constant table. If the bit is not in
    the mask, it reads from an array of zeros.

    Why here: nvcc computes channel, row and column of the tap in every iteration, with fifteen
    instructions, and sets registers to zero one by one. The pass runs before code generation,
    because TVM prints no constant arrays.
    """
    return function_pass("cuda.TapTables", _rewrite)


def definitions(functions: Sequence[Any]) -> str:
    """CUDA C++ of the tables and functions of kernels; empty if no kernel uses them.

    Tables that exceed constant memory are in global memory.
    """
    found = [func.attrs for func in functions if func.attrs and TABLES in func.attrs]
    text, left = "", _CONSTANT_BYTES
    for name, rows in (pair for attributes in found for pair in attributes[TABLES].items()):
        taken = _ROW_BYTES * rows.count("{")
        space = "constant" if taken <= left else "device"
        left -= taken if space == "constant" else 0
        text += f"static __{space}__ const int2 {name}[] = {{{rows}}};\n"
    zeros = max((int(attributes[ZEROS]) for attributes in found), default=0)
    array = f"static __device__ const float {_ZEROS}[{zeros}] = {{}};\n"
    return _DEFINITIONS + array + text if text else ""


def _rewrite(func: Any) -> Any:
    if has_products(func):
        return func
    stores = nodes_of(func.body, tirx.BufferStore)
    extents = thread_extents(func.body)
    blocks = {var: count for var, tag, count in extents if tag.startswith("blockIdx")}
    analyzer, values = kernel_analyzer(func.body), bound_values(func.body)
    written = [store.buffer for store in stores]
    kernel = _Kernel(str(func.attrs["global_symbol"]), analyzer, values, blocks, written)
    body = tvm_ffi.structural_map(
        func.body, (tirx.For, lambda loop: _TableLoop(kernel, loop).made())
    )
    if not kernel.tables:
        return func
    made = func.with_body(body).with_attr(TABLES, kernel.tables)
    return made.with_attr(ZEROS, kernel.zeros)


@dataclass
class _Kernel:
    """The properties of a kernel, and the tables that the pass has made for it.

    ``symbol`` is the kernel's name, and the analyzer knows the ranges of thread indices. ``values``
    are bound variables and their values, in order. ``blocks`` has the number of blocks by the
    variable of the block index. ``written`` are arrays that the kernel writes. ``tables`` are rows
    of the tables by name, and ``zeros`` is the largest span of one access.
    """

    symbol: str
    analyzer: Any
    values: Mapping[Any, Any]
    blocks: Mapping[Any, int]
    written: Sequence[Any]
    tables: dict[str, str] = field(default_factory=dict)
    zeros: int = 0


@dataclass(frozen=True)
class _TableAddress:
    """The address of an access in a slice, in elements.

    ``first`` are loop-invariant terms; ``moving`` are terms that depend on the slice, and
    constants. ``left`` is the position within the slice. ``span`` counts elements from the first
    position to the last, both included.
    """

    first: Any
    moving: Any
    left: Any
    span: int


class _TableLoop:
    """A loop, and its accesses through a table."""

    def __init__(self, kernel: _Kernel, loop: Any) -> None:
        self.kernel, self.loop = kernel, loop
        inner: list[Any] = []
        bound: list[Any] = []
        kept = [(tirx.For, inner), (tirx.Bind, bound)]
        tvm_ffi.structural_walk(loop.body, [(kind, found.append) for kind, found in kept])
        self.products = slice_products(loop)
        self.inner = [each.loop_var for each in inner]
        for each in inner:
            kernel.analyzer.bind(each.loop_var, ir.Range(each.min, each.extent))
        # variables bound before the loop stay, unless they depend on blocks alone
        own = {bind.var: bind.value for bind in bound}
        self.values: dict[Any, Any] = {}
        for var, value in kernel.values.items():
            if var in own:
                self.values[var] = substitute(own[var], self.values)
            elif all(used in kernel.blocks for used in variables(value)):
                self.values[var] = value
        self.before: list[Any] = []
        self.views: list[Any] = []

    def made(self) -> Any:
        """The loop after its bit masks; the same loop if no access uses a table."""
        if not self.products:
            return self.loop
        body = tvm_ffi.structural_map(self.loop.body, (ir.Call, self._selected))
        if not self.views:
            return self.loop
        loop = rebuilt(self.loop, body=tirx.SeqStmt([*self.views, body]))
        return tirx.SeqStmt([*self.before, loop])

    def _selected(self, call: Any) -> Any:
        """The load that replaces a selection; the same call if no table can be used."""
        if not is_select(call) or not isinstance(call.args[1], ir.TensorLoad):
            return call
        test, load, zero = call.args
        source, written = load.source, self.kernel.written
        read = str(source.scope()) == "global" and not any(source.same_as(b) for b in written)
        if not read or str(source.dtype) != "float32" or not is_zero(repeated(zero)):
            return call
        parts = [substitute(part, self.values) for part in conjuncts(test)]
        (index,) = load.indices
        place = self._place(index)
        differ = any(uses(part, var) for part in parts for var in self.inner)
        neighbors = isinstance(index, tirx.Ramp) and int(index.stride) == 1
        if place is None or differ or neighbors:
            return call
        view = self._view(source, place, parts)
        if view is None:
            return call
        at = place.left
        if isinstance(index, tirx.Ramp):
            at = tirx.Ramp(at, index.stride, index.lanes)
        return tirx.BufferLoad(view, [at])

    def _place(self, index: Any) -> _TableAddress | None:
        """The address of an access; None unless it is a sum of a slice's, a thread's and a
        position's term."""
        analyzer = self.kernel.analyzer
        vector = isinstance(index, tirx.Ramp)
        start = analyzer.simplify(substitute(index.base if vector else index, self.values))
        found = loop_terms(start, self.loop.loop_var, self.inner)
        left = total_of(found.inner)
        if any(not any(var.same_as(v) for v in self.inner) for var in variables(left)):
            return None
        known = analyzer.const_int_bound(left)
        last = (int(index.lanes) - 1) * int(index.stride) if vector else 0
        span = known.max_value + last + 1
        narrow = str(start.ty.dtype) == "int32"
        if not narrow or known.min_value < 0 or last < 0 or span > MOST_ZEROS:
            return None
        moving = total_of(found.moving + found.constant)
        return _TableAddress(total_of(found.fixed), moving, left, span)

    def _view(self, source: Any, place: _TableAddress, tests: Sequence[Any]) -> Any:
        """The buffer by which an iteration reads its values; None if no table can be made."""
        kernel, loop = self.kernel, self.loop
        parts = parts_of(place.moving, kernel.blocks, kernel.analyzer)
        if parts is None or parts.count * int(loop.extent) > _MOST_ROWS:
            return None
        within = ir.Var("within", loop.loop_var.ty)
        kernel.analyzer.bind(within, ir.Range(0, parts.size))
        forms: list[Any] = []
        rows: list[str] = []
        for number, slice_ in product(range(parts.count), range(int(loop.extent))):
            now = {loop.loop_var: int(loop.min) + slice_, **parts.known(number, within)}

            def known(value: Any, now: Mapping[Any, Any] = now) -> Any:
                return kernel.analyzer.simplify(substitute(value, now))

            offset, form = known(place.moving), tirx.all(*map(known, tests))
            if not isinstance(offset, tirx.IntImm):
                return None
            same = (i for i, other in enumerate(forms) if tvm_ffi.structural_equal(form, other))
            bit = next(same, len(forms))
            if bit == len(forms):
                forms.append(form)
            if len(forms) > MOST_FORMS:
                return None
            rows.append(f"{{{int(offset)}, {1 << bit}}}")
        table = f"{kernel.symbol}_taps_{len(kernel.tables)}"
        kernel.tables[table] = ", ".join(rows)
        kernel.zeros = max(kernel.zeros, place.span)
        zero, mask = tirx.IntImm("int32", 0), tirx.IntImm("int32", 0)
        for bit, form in enumerate(forms):
            mask = mask | tirx.Select(form, tirx.IntImm("int32", 1 << bit), zero)
        number = loop.loop_var - loop.min
        if parts.block is not None:
            mask = substitute(mask, {within: parts.block % parts.size})
            number = parts.block // parts.size * loop.extent + number
        kept = local_buffer((1,), "int32", "inside")
        self.before += [tirx.AllocBuffer(kept), tirx.BufferStore(kept, mask, [zero])]
        apart = str(self.products > _MANY_PRODUCTS).lower()
        called = f"{_CALLED}<{table}, {_ZEROS}, {apart}>"
        inside = tirx.BufferLoad(kept, [zero])
        pointer = tirx.call_pure_extern("handle", called, source.data, place.first, inside, number)
        view = local_buffer(source.shape, str(source.dtype), f"{source.name}_tap", "global")
        self.views.append(tirx.DeclBuffer(view, data=pointer))
        return view
