"""What kernels of one function leave for each other in global memory becomes its parameters.

TVM would allocate it at each call. As parameters such buffers lie in the program's arena, planned
with all others.
"""

from __future__ import annotations

from typing import Any


def with_workspace(func: Any) -> Any:
    """A function in block form whose intermediate buffers of global memory are its last parameters.

    Parameters
    ----------
    func
        Scheduled ``tirx.PrimFunc``.
    """
    from tvm import s_tir

    if not isinstance(func.body, s_tir.SBlockRealize):
        return func
    root = func.body.block
    shared = [buffer for buffer in root.alloc_buffers if buffer.scope() in ("", "global")]
    if not shared:
        return func
    kept = [buffer for buffer in root.alloc_buffers if buffer not in shared]
    block = s_tir.SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        root.body,
        root.init,
        kept,
        root.match_buffers,
        root.annotations,
    )
    body = s_tir.SBlockRealize(func.body.iter_values, func.body.predicate, block)
    return type(func)([*func.params, *shared], body, func.ret_type, func.attrs)
