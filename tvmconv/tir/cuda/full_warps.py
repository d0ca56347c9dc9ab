"""Warps that share sums: all lanes take part, whatever the hardware has of them together."""

from __future__ import annotations

from typing import Any

from tvmconv.tir.cuda.threads import block_threads
from tvmconv.tir.general.rewrite import function_pass

_ACTIVE = "tirx.tvm_warp_activemask"
_WARP, _ALL_LANES = 32, 0xFFFFFFFF


def WholeWarps() -> Any:
    """A pass that names all lanes of a warp where they share their sums.

    Pattern: ``tvm_warp_activemask()`` in a kernel whose blocks are whole warps.

    Rewrite: the mask of all lanes. A shuffle then waits for lanes that are behind.

    Why here: the active mask says which lanes happen to execute together. Where a warp parted
    before, at a loop's last values for example, nothing promises that it is together again (Volta
    and later), and a shuffle of some lanes reads no sum of the others. LowerThreadAllreduce writes
    it in front of shuffles that every thread of the block comes to. In kernels alone, whose blocks
    are of one size.
    """
    return function_pass("WholeWarps", _rewrite)


def _rewrite(func: Any) -> Any:
    import tvm_ffi
    from tvm import ir, tirx

    if block_threads(func.body) % _WARP:
        return func
    found = False

    def replace(call: Any) -> Any:
        nonlocal found
        if getattr(call.op, "name", "") != _ACTIVE:
            return call
        found = True
        return tirx.IntImm("uint32", _ALL_LANES)

    body = tvm_ffi.structural_map(func.body, (ir.Call, replace))
    return func.with_body(body) if found else func
