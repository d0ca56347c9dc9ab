"""Makes intermediate buffers in global memory parameters of their function.

TVM would allocate them at each call. As parameters they are part of the program's arena, which is
planned for all buffers together.
"""

from __future__ import annotations

from typing import Any

from tvm import s_tir

from tvmconv.tir.general.rewrite import rebuilt_block


def with_workspace(func: Any) -> Any:
    """Append a function's intermediate buffers in global memory to its parameters."""
    if not isinstance(func.body, s_tir.SBlockRealize):
        return func
    root = func.body.block
    shared = [buffer for buffer in root.alloc_buffers if buffer.scope() in ("", "global")]
    if not shared:
        return func
    kept = [buffer for buffer in root.alloc_buffers if buffer not in shared]
    body = rebuilt_block(func.body, alloc_buffers=kept)
    return type(func)([*func.params, *shared], body, func.ret_type, func.attrs)
