"""Puts the buffers of a register tile on the stack, not in the workspace pool."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvmconv.tir.general.rewrite import byte_size, function_pass, map_nodes

# TVM's kMaxStackAlloca: buffers of this size or more come from the workspace pool
POOLED_BYTES = 1024
# TVM's annotation by which its code generator allocates on the stack
ON_STACK = "disable_lower_builtin"
# A tile's values: a few times the register file. Larger buffers stay in the pool.
_MOST_BYTES = 16 * 1024


def on_stack(buffer: Any) -> Any:
    """The allocation of a buffer that stays on the stack."""
    return tirx.AllocBuffer(buffer, {ON_STACK: tirx.IntImm("bool", 1)})


def StackBuffers() -> Any:
    """A pass that allocates every small buffer of scope ``local`` on the stack.

    Pattern: after storage planning, an allocation of scope ``local`` of at most 16 KiB.

    Rewrite: it gets TVM's annotation ``disable_lower_builtin``, by which the code generator
    reserves stack in place of a call of the workspace pool.

    Why here: TVM allocates buffers of 1 KiB and more from the pool, regardless of scope. A tile
    would need two calls. LLVM could not keep its values in registers, because they are accessed
    by a heap pointer.
    """
    return function_pass("StackBuffers", _keep_on_stack)


def _keep_on_stack(func: Any) -> Any:
    def mark(node: Any) -> Any:
        buffer = node.buffer
        if buffer.scope() != "local" or ON_STACK in node.annotations:
            return node
        if byte_size(buffer) > _MOST_BYTES:
            return node
        return tirx.AllocBuffer(buffer, {**node.annotations, ON_STACK: tirx.IntImm("bool", 1)})

    return map_nodes(func, (tirx.AllocBuffer, mark))
