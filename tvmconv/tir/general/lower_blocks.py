"""TVM's passes that turn the blocks of a function into loops over plain buffers."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import transform


def block_passes() -> list[Any]:
    """TVM's own passes in TVM's order, without its GPU passes."""
    return [
        transform.CanonicalizeLoop(),
        transform.LowerInitBlock(),
        transform.PlanAndUpdateBufferAllocationLocation(),
        transform.ConvertBlocksToOpaque(),
        transform.CompactBufferAllocation(),
        transform.LowerMatchBuffer(),
        transform.StmtSimplify(),
        transform.LowerOpaqueBlock(),
    ]
