"""Records the scratch memory that a function allocates in addition to its arguments."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import byte_size, function_pass, nodes_of
from tvmconv.tir.general.stack_buffers import ON_STACK, POOLED_BYTES

# alignment of allocations in the pool
_UNIT = 64
# where the pass writes
_RECORD: ContextVar[dict[str, int] | None] = ContextVar("workspace", default=None)


@contextmanager
def recorded() -> Iterator[dict[str, int]]:
    """Bytes of workspace, by symbol, of functions that are built inside the context."""
    sizes: dict[str, int] = {}
    token = _RECORD.set(sizes)
    try:
        yield sizes
    finally:
        _RECORD.reset(token)


def workspace_bytes(func: Any) -> int:
    """Bytes that one call of a function allocates from the workspace pool, after storage planning.

    The result counts one thread. A buffer inside a parallel loop exists once for each core that
    runs an iteration.
    """
    nodes = nodes_of(func.body, tirx.AllocBuffer)
    sizes = [byte_size(node.buffer) for node in nodes if ON_STACK not in node.annotations]
    return sum(-(-size // _UNIT) * _UNIT for size in sizes if size >= POOLED_BYTES)


def RecordWorkspace() -> Any:
    """A pass that changes nothing and records each function's workspace for :func:`recorded`.

    It runs after storage planning and the marking of stack buffers; later passes turn allocations
    into calls. Outside a :func:`recorded` context it does nothing.
    """
    return function_pass("RecordWorkspace", _record)


def _record(func: Any) -> Any:
    record = _RECORD.get()
    if record is not None and func.attrs and "global_symbol" in func.attrs:
        size = workspace_bytes(func)
        if size:
            record[str(func.attrs["global_symbol"])] = size
    return func
