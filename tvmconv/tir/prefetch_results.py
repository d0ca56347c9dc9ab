"""Software prefetch of what a register tile adds to, while its reduction runs."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.annotations import RESULT
from tvmconv.tir.rewrite import (
    TO_L1,
    function_pass,
    prefetch,
    rebuilt,
    replace_marked,
    substitute,
)


def PrefetchResults() -> Any:
    """A pass that prefetches the destinations of a tile's stores before its reduction.

    Pattern: a marked loop over tiles whose body holds a serial loop (the reduction) and after it
    stores to buffers that are not local.

    Rewrite: before the serial loop, the loops around these stores run once with a prefetch for
    writing in place of each store, one for the first element of each vector. Loops that do not
    fit only lose their annotation.

    Why here: a product that is summed in memory, part by part, reads and writes a tile's values
    once for each part. They come from far away, row by row, and the hardware, which sees the
    first access only after the last multiply-add, cannot ask earlier. Neither TVM nor LLVM
    inserts prefetches on x86.
    """
    return function_pass("PrefetchResults", _prefetch_results)


def _prefetch_results(func: Any) -> Any:
    from tvm import tirx

    def ask(loop: Any, _value: Any) -> Any:
        parts = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
        serial = [i for i, part in enumerate(parts) if _is_serial(part)]
        if serial:
            hints = [_hints(part) for part in parts[serial[0] + 1 :]]
            parts[serial[0] : serial[0]] = [hint for hint in hints if hint is not None]
        return rebuilt(loop, body=tirx.SeqStmt(parts) if len(parts) > 1 else parts[0])

    return replace_marked(func, {RESULT: ask})


def _is_serial(stmt: Any) -> bool:
    from tvm import tirx

    return isinstance(stmt, tirx.For) and int(stmt.kind) == tirx.ForKind.SERIAL


def _hints(stmt: Any) -> Any:
    """The loops of some stores around prefetches of their first elements; None without stores."""
    from tvm import ir, tirx

    if isinstance(stmt, tirx.For):
        body = _hints(stmt.body)
        if body is None:
            return None
        old = stmt.loop_var
        if int(stmt.kind) == tirx.ForKind.VECTORIZED:
            return substitute(body, {old: 0})
        new = ir.Var(old.name, old.ty)
        body = substitute(body, {old: new})
        return tirx.For(new, stmt.min, stmt.extent, stmt.kind, body, annotations=stmt.annotations)
    if isinstance(stmt, tirx.SeqStmt):
        return _hints(stmt.seq[-1])
    if isinstance(stmt, tirx.IfThenElse):
        return _hints(stmt.then_case)
    if isinstance(stmt, tirx.BufferStore) and stmt.buffer.scope() != "local":
        return prefetch(tirx.BufferLoad(stmt.buffer, stmt.indices), TO_L1, write=True)
    return None
