"""Prefetch of what a register tile adds to, while its reduction runs.

A product that is summed up in memory, part by part, reads and writes a tile's values once for
each part. They come from far away, row by row, and nothing else would ask for them before the
last multiply-add is done.
"""

from __future__ import annotations

from typing import Any

# annotation that schedules put on the loop over tiles
RESULT = "tvmconv.result"
_TO_L1 = 3


def prefetch_results(func: Any) -> Any:
    """In every marked loop, ask for the destinations of its stores before its inner loops.

    Parameters
    ----------
    func
        ``tirx.PrimFunc`` without blocks, buffers not yet flattened.
    """
    import tvm_ffi
    from tvm import tirx

    found = False

    def look(loop: Any) -> Any:
        nonlocal found
        if RESULT not in loop.annotations:
            return loop
        found = True
        kept = {key: value for key, value in loop.annotations.items() if key != RESULT}
        parts = list(loop.body.seq) if isinstance(loop.body, tirx.SeqStmt) else [loop.body]
        serial = [i for i, part in enumerate(parts) if _is_serial(part)]
        if serial:
            hints = [_hints(part) for part in parts[serial[0] + 1 :]]
            parts[serial[0] : serial[0]] = [hint for hint in hints if hint is not None]
        body = tirx.SeqStmt(parts) if len(parts) > 1 else parts[0]
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body, annotations=kept)

    body = tvm_ffi.structural_map(func.body, (tirx.For, look))
    return func.with_body(body) if found else func


def _is_serial(stmt: Any) -> bool:
    from tvm import tirx

    return isinstance(stmt, tirx.For) and int(stmt.kind) == tirx.ForKind.SERIAL


def _hints(stmt: Any) -> Any:
    """The loops of some stores around prefetches of their first elements; None without stores."""
    import tvm_ffi
    from tvm import ir, tirx

    if isinstance(stmt, tirx.For):
        body = _hints(stmt.body)
        if body is None:
            return None
        vector = int(stmt.kind) == tirx.ForKind.VECTORIZED
        old = stmt.loop_var
        new = tirx.IntImm(str(old.ty.dtype), 0) if vector else ir.Var(old.name, old.ty)
        body = tvm_ffi.structural_map(body, (ir.Var, lambda v: new if v.same_as(old) else v))
        if vector:
            return body
        return tirx.For(new, stmt.min, stmt.extent, stmt.kind, body, annotations=stmt.annotations)
    if isinstance(stmt, tirx.SeqStmt):
        return _hints(stmt.seq[-1])
    if isinstance(stmt, tirx.IfThenElse):
        return _hints(stmt.then_case)
    if isinstance(stmt, tirx.BufferStore) and stmt.buffer.scope() != "local":
        address = tirx.address_of(tirx.BufferLoad(stmt.buffer, stmt.indices))
        return tirx.Evaluate(tirx.call_intrin("void", "tirx.prefetch", address, 1, _TO_L1, 1))
    return None
