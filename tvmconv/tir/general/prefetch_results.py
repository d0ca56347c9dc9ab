"""Software prefetch of a register tile's results and addends during its reduction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi
from tvm import ir, tirx

from tvmconv.core.datatypes import itemsize
from tvmconv.tir.annotations import RESULT
from tvmconv.tir.general.rewrite import (
    TO_L1,
    function_pass,
    nodes_of,
    prefetch,
    rebuilt,
    replace_marked,
    substitute,
)

_LINE = 64
# shorter vectors share the prefetch of a cache line
_SHARING = 32


def PrefetchResults() -> Any:
    """A pass that prefetches the destinations and the addends of a tile's stores.

    Pattern: a marked loop over tiles, whose body is a serial loop (the reduction) followed by
    stores to buffers that are not local.

    Rewrite: the loops around these stores also run before the serial loop, with prefetches in place
    of stores. Each vector gets a prefetch for writing. Loads of other buffers at the same index get
    a prefetch for reading. Short consecutive vectors share the prefetch of their cache line. Loops
    that do not fit only lose their annotation.

    Why here: a GEMM that accumulates in memory reads and writes a tile once for each part of the
    reduction. A tile of several output blocks writes to a plane for each block. The hardware sees
    the first access only after the last FMA, too late to hide its latency. Neither TVM nor LLVM
    inserts prefetches on x86.
    """
    return function_pass("PrefetchResults", _prefetch_results)


def _prefetch_results(func: Any) -> Any:
    def ask(loop: Any, _value: Any) -> Any:
        parts = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
        serial = [i for i, part in enumerate(parts) if _is_serial(part)]
        if serial:
            hints = [_hints(part) for part in parts[serial[0] + 1 :]]
            parts[serial[0] : serial[0]] = [hint for hint in hints if hint is not None]
        return rebuilt(loop, body=tirx.stmt_seq(*parts))

    return replace_marked(func, {RESULT: ask})


def _is_serial(stmt: Any) -> bool:
    if not isinstance(stmt, tirx.For):
        return False
    return int(stmt.kind) == tirx.ForKind.SERIAL or _is_serial(stmt.body)


def _hints(stmt: Any) -> Any:
    """The loops of some stores around prefetches of their first elements; None without stores."""
    if isinstance(stmt, tirx.For):
        body = _hints(stmt.body)
        if body is None:
            return None
        old = stmt.loop_var
        if int(stmt.kind) == tirx.ForKind.VECTORIZED:
            return substitute(body, {old: 0})
        new = ir.Var(old.name, old.ty)
        extent, place = stmt.extent, new
        if (size := _vector_bytes(stmt.body)) < _SHARING:
            # the last prefetch touches the last line
            count = int(extent)
            extent = -(-(count - 1) * size // _LINE) + 1
            place = tirx.min(new * (_LINE // size), count - 1)
        body = substitute(body, {old: place})
        return tirx.For(new, stmt.min, extent, stmt.kind, body, annotations=stmt.annotations)
    if isinstance(stmt, tirx.SeqStmt):
        return _hints(stmt.seq[-1])
    if isinstance(stmt, tirx.IfThenElse):
        return _hints(stmt.then_case)
    if isinstance(stmt, tirx.BufferStore) and stmt.buffer.scope() != "local":
        write = prefetch(tirx.BufferLoad(stmt.buffer, stmt.indices), TO_L1, write=True)
        reads = [prefetch(load, TO_L1) for load in _addends(stmt)]
        return tirx.SeqStmt([write, *reads]) if reads else write
    return None


def _vector_bytes(stmt: Any) -> int:
    """Bytes of the vectors that a vectorized loop stores; a line's for other statements."""
    if not isinstance(stmt, tirx.For) or int(stmt.kind) != tirx.ForKind.VECTORIZED:
        return _LINE
    if not isinstance(stmt.body, tirx.BufferStore):
        return _LINE
    return int(stmt.extent) * itemsize(str(stmt.body.buffer.dtype))


def _addends(store: Any) -> Iterator[Any]:
    """Loads from other buffers in memory at the index of a store."""
    found: list[Any] = []
    for load in nodes_of(store.value, ir.TensorLoad):
        known = any(load.source.same_as(other.source) for other in found)
        if not known and tvm_ffi.structural_equal(load.indices, store.indices):
            found.append(load)
    others = (load for load in found if not load.source.same_as(store.buffer))
    return (load for load in others if load.source.scope() != "local")
