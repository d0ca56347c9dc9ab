"""The part of TVM's lowering that leaves loops and plain buffers of the blocks of a function."""

from __future__ import annotations

from typing import Any


def block_passes() -> list[Any]:
    """TVM's passes up to the one after which there are no blocks, in TVM's order."""
    from tvm.s_tir import transform

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


def lower_blocks(func: Any) -> Any:
    """A scheduled ``tirx.PrimFunc`` without blocks, its buffers compact."""
    from tvm import ir

    lower = ir.transform.Sequential(block_passes())
    return lower(ir.IRModule({"main": func}))["main"]


def rooted(func: Any) -> Any:
    """A ``tirx.PrimFunc`` with a block around its body.

    Relax takes one for granted: it asks of a call that reads one operand alone, such as a
    convolution all of whose windows lie in the padding, whether its function is a reshape.
    """
    from tvm import s_tir

    if isinstance(func.body, s_tir.SBlockRealize):
        return func
    return func.with_body(
        s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", func.body))
    )
