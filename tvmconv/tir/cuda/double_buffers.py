"""Double buffering in shared memory by a pointer that each iteration toggles.

A slice is read from one buffer of an array while the next slice is written to the other. The
buffers swap in every iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.algorithms.cuda.slices import LARGE_BLOCK
from tvmconv.tir.cuda.loop_terms import loop_terms, total_of
from tvmconv.tir.cuda.mma import has_products
from tvmconv.tir.cuda.threads import block_threads, bound_values, kernel_analyzer
from tvmconv.tir.general.rewrite import (
    function_pass,
    item_bytes,
    local_buffer,
    map_nodes,
    nodes_of,
    rebuilt,
    substitute,
)

_CALLED = "tvmconv_turned"
# CUDA C++ of what the pass calls; tvmconv/lab/emulation/c/cuda.h has it, too
DEFINITIONS = f"""template <class T>
static __device__ __forceinline__ T *{_CALLED}(T *array, int bytes) {{
  return (T *)((char *)array + bytes);
}}
"""
_TURNS = 2
_SHARED = "shared"


def DoubleBuffers() -> Any:
    """A pass that toggles an offset between two buffers in place of computing it anew.

    Pattern: in a loop over ``v`` of a kernel, accesses to shared memory at ``(v + c) % 2 * n`` plus
    other terms. The terms that do not change in the loop are below ``n``, a power of two. Blocks
    of 256 threads are left out: they have 128 registers a thread, and with a residual nvcc spilled
    16 to 32 bytes. Tensor-core kernels are left out: none was compiled with the pass.

    Rewrite: the invariant terms and the buffer's start, in bytes, become a variable ``b`` that all
    such accesses share. Each iteration ends with ``b ^= n``. Accesses add the remaining terms.

    Why here: nvcc computes such addresses from ``v`` in every iteration. For two operands that are
    read and written, this took ten or eleven instructions in place of four. The pass runs after
    the removal of barriers, which needs the parity of ``v`` in the indices.
    """
    return function_pass("cuda.DoubleBuffers", _rewrite)


def calls_turned(source: str) -> bool:
    """Whether CUDA source calls the function of :data:`DEFINITIONS`."""
    return _CALLED in source


def _rewrite(func: Any) -> Any:
    if has_products(func) or block_threads(func.body) >= LARGE_BLOCK:
        return func
    values, analyzer = bound_values(func.body), kernel_analyzer(func.body)

    def look(loop: Any) -> Any:
        new = _BufferedLoop(loop, values, analyzer).rewritten()
        return loop if new is None else new

    return map_nodes(func, (tirx.For, look))


@dataclass(frozen=True)
class _BufferBase:
    """The base address of some accesses of an iteration.

    Accesses name ``view`` instead of the array ``buffer``. ``fixed`` are invariant terms in
    elements, and ``own`` is the start of the buffer of the first iteration. ``half`` counts
    elements of one of the two buffers.
    """

    buffer: Any
    view: Any
    fixed: Any
    own: int
    half: int

    @property
    def bytes(self) -> int:
        """Bytes of an element."""
        return item_bytes(str(self.buffer.dtype))


class _BufferedLoop:
    """A loop and its double-buffered accesses."""

    def __init__(self, loop: Any, values: Mapping[Any, Any], analyzer: Any) -> None:
        self.loop, self.values, self.analyzer = loop, values, analyzer
        inner = nodes_of(loop.body, tirx.For)
        self.inner = [each.loop_var for each in inner]
        self.places: list[_BufferBase] = []

    def rewritten(self) -> Any:
        """The loop after its initial offsets; None if it has no double buffers."""

        def load(access: Any) -> Any:
            found = self._place(access.source, access.indices)
            return access if found is None else tirx.BufferLoad(*found)

        def store(access: Any) -> Any:
            found = self._place(access.buffer, access.indices)
            return access if found is None else tirx.BufferStore(found[0], access.value, found[1])

        body = tvm_ffi.structural_map(
            self.loop.body, [(ir.TensorLoad, load), (tirx.BufferStore, store)]
        )
        if not self.places:
            return None
        kept = local_buffer((len(self.places),), "int32", "places")
        before, views, behind = [], [], []
        for number, place in enumerate(self.places):
            at = [tirx.IntImm("int32", number)]
            now = tirx.BufferLoad(kept, at)
            first = self.analyzer.simplify((place.fixed + place.own) * place.bytes)
            before.append(tirx.BufferStore(kept, first, at))
            pointer = tirx.call_pure_extern("handle", _CALLED, place.buffer.data, now)
            views.append(tirx.DeclBuffer(place.view, data=pointer))
            half = tirx.IntImm("int32", place.half * place.bytes)
            behind.append(tirx.BufferStore(kept, tirx.bitwise_xor(now, half), at))
        loop = rebuilt(self.loop, body=tirx.SeqStmt([*views, body, *behind]))
        return tirx.SeqStmt([tirx.AllocBuffer(kept), *before, loop])

    def _place(self, buffer: Any, indices: Any) -> tuple[Any, list[Any]] | None:
        """The view and index that replace an access; None if the access is not double-buffered."""
        if str(buffer.scope()) != _SHARED or len(indices) != 1:
            return None
        (index,) = indices
        vector = isinstance(index, tirx.Ramp)
        first = substitute(index.base if vector else index, self.values)
        found = loop_terms(self.analyzer.simplify(first), self.loop.loop_var, self.inner)
        turning, fixed = found.moving, total_of(found.fixed)
        left = total_of(found.inner + found.constant)
        turn = _turn(turning[0], self.loop.loop_var) if len(turning) == 1 else None
        if turn is None:
            return None
        half, odd = turn
        fixed = self.analyzer.simplify(fixed)
        bound = self.analyzer.const_int_bound(fixed)
        if half & (half - 1) or bound.min_value < 0 or bound.max_value >= half:
            return None
        own = half * ((int(self.loop.min) + odd) % _TURNS)
        view = self._view(buffer, fixed, own, half)
        left = self.analyzer.simplify(left)
        return view, [tirx.Ramp(left, index.stride, index.lanes) if vector else left]

    def _view(self, buffer: Any, fixed: Any, own: int, half: int) -> Any:
        for place in self.places:
            same = place.buffer.same_as(buffer) and (place.own, place.half) == (own, half)
            if same and tvm_ffi.structural_equal(place.fixed, fixed):
                return place.view
        name = f"{buffer.name}_turn"
        view = local_buffer(buffer.shape, str(buffer.dtype), name, _SHARED)
        self.places.append(_BufferBase(buffer, view, fixed, own, half))
        return view


def _turn(term: Any, var: Any) -> tuple[int, int] | None:
    """Buffer size ``n`` and parity ``c`` of ``(var + c) % 2 * n``; None for other terms."""
    half = 1
    if isinstance(term, tirx.Mul) and isinstance(term.b, tirx.IntImm):
        half, term = int(term.b), term.a
    halves = isinstance(term, tirx.FloorMod) and isinstance(term.b, tirx.IntImm)
    if not halves or int(term.b) != _TURNS:
        return None
    first, offset = term.a, 0
    if isinstance(first, tirx.Add) and isinstance(first.b, tirx.IntImm):
        first, offset = first.a, int(first.b)
    return (half, offset % _TURNS) if first.same_as(var) else None
