"""Warp shuffles in which all lanes take part."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx

from tvmconv.tir.cuda.threads import block_threads
from tvmconv.tir.general.rewrite import function_pass, map_nodes

_ACTIVE = "tirx.tvm_warp_activemask"
_WARP, _ALL_LANES = 32, 0xFFFFFFFF


def FullWarps() -> Any:
    """A pass that names all lanes of a warp in the shuffles of a reduction.

    Pattern: ``tvm_warp_activemask()`` in a kernel whose blocks are whole warps.

    Rewrite: the mask of all lanes. A shuffle then waits for lanes that have not arrived yet.

    Why here: the active mask names the lanes that happen to execute together. After a divergent
    branch, nothing guarantees that a warp has converged again (Volta and later). A shuffle of some
    lanes would miss the partial sums of the others. LowerThreadAllreduce puts the active mask
    before shuffles that every thread of the block reaches. Only kernels have a fixed block size.
    """
    return function_pass("cuda.FullWarps", _rewrite)


def _rewrite(func: Any) -> Any:
    if block_threads(func.body) % _WARP:
        return func

    def replace(call: Any) -> Any:
        if getattr(call.op, "name", "") != _ACTIVE:
            return call
        return tirx.IntImm("uint32", _ALL_LANES)

    return map_nodes(func, (ir.Call, replace))
