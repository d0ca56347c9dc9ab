"""Taps of a padded window, one a slice: where each is read is told by a table, zeros are read, too.

The K offset table of implicit GEMM: which channels a slice holds, and of which tap, depends on the
slice alone, and is known when the kernel is made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from tvmconv.algorithms.cuda.slices import MOST_FORMS, MOST_ZEROS
from tvmconv.tir.cuda.loop_terms import loop_terms, parts_of, slice_products, total_of
from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.cuda.threads import bound_values, kernel_analyzer, thread_extents
from tvmconv.tir.general.conditions import conjuncts, is_select, is_zero
from tvmconv.tir.general.rewrite import (
    function_pass,
    local_buffer,
    rebuilt,
    repeated,
    substitute,
    uses,
    variables,
)

_CALLED = "tvmconv_tap"
_ZEROS = "tvmconv_zeros"
# attributes of kernels: the tables' text, and how many zeros there are to be
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
# what a module's kernels may declare of constants, and what a slice takes of it
_CONSTANT_BYTES, _ROW_BYTES = 60 << 10, 8
_MOST_ROWS = 4096
# of slices with more products, a tile of 64x64 spilled 24 bytes where the place was one sum; where
# the thread's address and the tap's place stayed apart, smaller ones took two instructions more
_MANY_PRODUCTS = 1024


def TapTables() -> Any:
    """A pass that finds a slice's tap, and whether it lies in the image, in a table.

    Pattern: in a loop over ``v`` of a kernel, with a barrier, ``if_then_else(test, x, 0)``. ``x``
    is a float32, or some, of a parameter that the kernel only reads, at a sum of terms of ``v``
    (and of the part of the reduction that a block has), of terms that do not change in the loop,
    and of places among the values of a slice. ``test`` is one for all of these, and has at most
    :data:`~tvmconv.algorithms.cuda.slices.MOST_FORMS` forms. Not in kernels for tensor cores
    nor of vectors of neighbours, as neither was compiled with it.

    Rewrite: before the loop, each thread finds which forms hold for it, a bit each. An iteration
    reads from a constant table how far on its values lie, and the bit of its form; where that is
    none of the thread's, it reads from an array of zeros.

    Why here: nvcc finds channel, row and column of the tap anew in every iteration, with fifteen
    instructions, and fills registers with zeros, one for each pair of values. Before the text is
    made, as TVM's code generator prints no constant arrays.
    """
    return function_pass("TapTables", _rewrite)


def definitions(functions: Sequence[Any]) -> str:
    """CUDA C++ of the tables of kernels, and of what they call; nothing where they have none.

    Tables for which constant memory has no room left lie in global memory.
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
    import tvm_ffi
    from tvm import tirx

    if has_products(func):
        return func
    stores: list[Any] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, stores.append))
    extents = thread_extents(func.body)
    blocks = {var: count for var, tag, count in extents if tag.startswith("blockIdx")}
    analyzer, values = kernel_analyzer(func.body), bound_values(func.body)
    written = [store.buffer for store in stores]
    kernel = _Kernel(str(func.attrs["global_symbol"]), analyzer, values, blocks, written)
    body = tvm_ffi.structural_map(func.body, (tirx.For, lambda loop: _Loop(kernel, loop).made()))
    if not kernel.tables:
        return func
    made = func.with_body(body).with_attr(TABLES, kernel.tables)
    return made.with_attr(ZEROS, kernel.zeros)


@dataclass
class _Kernel:
    """What is known of a kernel, and what the pass has made for it.

    Parameters
    ----------
    symbol
        Its name.
    analyzer
        With the ranges of thread indices.
    values
        What is bound, by blocks, threads and loops, in order.
    blocks
        How many blocks there are, by the variable of a block's number.
    written
        Arrays that it stores to.
    tables, zeros
        Rows of the tables by their names, and the most values that one access spans.
    """

    symbol: str
    analyzer: Any
    values: Mapping[Any, Any]
    blocks: Mapping[Any, int]
    written: Sequence[Any]
    tables: dict[str, str] = field(default_factory=dict)
    zeros: int = 0


@dataclass(frozen=True)
class _Place:
    """Where the values of a slice lie, in elements.

    Parameters
    ----------
    first, moving
        What does not change in the loop; what the slice decides, and constants.
    left
        From there on, the place of one value among those of a slice.
    span
        Values from the first to behind the last.
    """

    first: Any
    moving: Any
    left: Any
    span: int


class _Loop:
    """A loop, and its accesses by a table."""

    def __init__(self, kernel: _Kernel, loop: Any) -> None:
        import tvm_ffi
        from tvm import ir, tirx

        self.kernel, self.loop = kernel, loop
        inner: list[Any] = []
        bound: list[Any] = []
        kept = [(tirx.For, inner), (tirx.Bind, bound)]
        tvm_ffi.structural_walk(loop.body, [(kind, found.append) for kind, found in kept])
        self.products = slice_products(loop)
        self.inner = [each.loop_var for each in inner]
        for each in inner:
            kernel.analyzer.bind(each.loop_var, ir.Range(each.min, each.extent))
        # what is bound before the loop stays a variable, but for what blocks alone decide
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
        """The loop with what stands before it; the same loop where no access is by a table."""
        import tvm_ffi
        from tvm import ir, tirx

        if not self.products:
            return self.loop
        body = tvm_ffi.structural_map(self.loop.body, (ir.Call, self._selected))
        if not self.views:
            return self.loop
        loop = rebuilt(self.loop, body=tirx.SeqStmt([*self.views, body]))
        return tirx.SeqStmt([*self.before, loop])

    def _selected(self, call: Any) -> Any:
        """A selection between a value and zero, by a table; the same where it is none."""
        from tvm import ir, tirx

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
        neighbours = isinstance(index, tirx.Ramp) and int(index.stride) == 1
        if place is None or differ or neighbours:
            return call
        view = self._view(source, place, parts)
        if view is None:
            return call
        at = place.left
        if isinstance(index, tirx.Ramp):
            at = tirx.Ramp(at, index.stride, index.lanes)
        return tirx.BufferLoad(view, [at])

    def _place(self, index: Any) -> _Place | None:
        """Where an access begins; None where that is no sum of what the slice decides, what is
        the thread's, and what differs between the values of a slice."""
        from tvm import tirx

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
        return _Place(total_of(found.fixed), moving, left, span)

    def _view(self, source: Any, place: _Place, tests: Sequence[Any]) -> Any:
        """The name by which an iteration reads its values; None where no table says where."""
        import tvm_ffi
        from tvm import ir, tirx

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
