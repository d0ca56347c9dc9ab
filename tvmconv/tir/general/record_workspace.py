"""Scratch memory that a function allocates beside its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvmconv.tir.general.rewrite import byte_size, function_pass
from tvmconv.tir.general.stack_buffers import ON_STACK, POOLED_BYTES

# blocks start at multiples of it
_UNIT = 64
# what the pass writes to
_RECORD: ContextVar[dict[str, int] | None] = ContextVar("workspace", default=None)


@contextmanager
def recorded() -> Iterator[dict[str, int]]:
    """Bytes of workspace by symbol of all functions that are built inside."""
    sizes: dict[str, int] = {}
    token = _RECORD.set(sizes)
    try:
        yield sizes
    finally:
        _RECORD.reset(token)


def workspace_bytes(func: Any) -> int:
    """Bytes that one call of a lowered function takes from the workspace pool.

    Parameters
    ----------
    func
        ``tirx.PrimFunc`` after storage was planned. A buffer inside a parallel loop counts once
        for each iteration that can run at a time, which the machine's cores bound; the count
        here is that of one thread.
    """
    import tvm_ffi
    from tvm import tirx

    total = 0

    def look(node: Any) -> None:
        nonlocal total
        size = byte_size(node.buffer)
        if size >= POOLED_BYTES and ON_STACK not in node.annotations:
            total += -(-size // _UNIT) * _UNIT

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, look))
    return total


def RecordWorkspace() -> Any:
    """A pass that changes nothing and writes each function's workspace for :func:`recorded`.

    It stands where storage has been planned and the buffers on the stack are marked; later passes
    turn the allocations into calls. Inside no :func:`recorded`, it does nothing.
    """
    return function_pass("RecordWorkspace", _record)


def _record(func: Any) -> Any:
    record = _RECORD.get()
    if record is not None and func.attrs and "global_symbol" in func.attrs:
        size = workspace_bytes(func)
        if size:
            record[str(func.attrs["global_symbol"])] = size
    return func
