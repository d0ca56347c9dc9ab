"""TVM's own lowering, up to the point where a function can be specialised."""

from __future__ import annotations

from typing import Any


def without_blocks(func: Any) -> Any:
    """TVM's own lowering up to the point where blocks are gone and buffers are compact."""
    from tvm import ir
    from tvm.s_tir import transform as passes

    lower = ir.transform.Sequential(
        [
            passes.CanonicalizeLoop(),
            passes.LowerInitBlock(),
            passes.PlanAndUpdateBufferAllocationLocation(),
            passes.ConvertBlocksToOpaque(),
            passes.CompactBufferAllocation(),
            passes.LowerMatchBuffer(),
            passes.StmtSimplify(),
            passes.LowerOpaqueBlock(),
        ]
    )
    return lower(ir.IRModule({"main": func}))["main"]
