"""Scratch memory that a function allocates beside its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any

from tvmconv.tir.rewrite import function_pass
from tvmconv.tir.stack import ON_STACK

# TVM's kMaxStackAlloca: larger buffers come from the workspace pool
_STACK_LIMIT = 1024

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
        buffer = node.buffer
        size = prod(int(extent) for extent in buffer.shape) * _item_bytes(str(buffer.dtype))
        if size > _STACK_LIMIT and ON_STACK not in node.annotations:
            total += size

    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, look))
    return total


def _item_bytes(dtype: str) -> int:
    from tvm_ffi import dtype as parse

    described = parse(dtype)
    return int(described.bits * described.lanes + 7) // 8


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
