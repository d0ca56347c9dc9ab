"""The passes between scheduled functions and LLVM, as a named pipeline of ``tirx.build``.

They are TVM's own in TVM's order, without those that concern GPUs and narrow floating-point types
only, without the elimination of common subexpressions (LLVM does it; on ResNet-50 it took a third
of the build and changed no time), and with additions for remainders and for linear build times.
"""

from __future__ import annotations

from typing import Any

from tvmconv.compile.lets import spill_lets
from tvmconv.compile.results import prefetch_results
from tvmconv.compile.stack import keep_on_stack
from tvmconv.compile.streams import prefetch_streams
from tvmconv.compile.tails import split_tails
from tvmconv.compile.transposes import transpose_copies
from tvmconv.compile.workspace import record_pass

PIPELINE = "tvmconv"


def register() -> str:
    """Make the pipeline known to TVM and return its name."""
    from tvm import tirx

    tirx.register_tir_pipeline(PIPELINE, _factory)
    return PIPELINE


def _factory() -> tuple[Any, Any, Any]:
    from tvm.s_tir.pipeline import finalize_device_passes, finalize_host_passes

    return _lower(), finalize_host_passes, finalize_device_passes


def _lower() -> Any:
    from tvm import ir, s_tir, tirx

    tir, low = tirx.transform, s_tir.transform
    return ir.transform.Sequential(
        [
            low.CanonicalizeLoop(),
            low.LowerInitBlock(),
            low.PlanAndUpdateBufferAllocationLocation(),
            low.ConvertBlocksToOpaque(),
            low.CompactBufferAllocation(),
            low.LowerMatchBuffer(),
            low.StmtSimplify(),
            low.LowerOpaqueBlock(),
            tir.prim_func_pass(_split_tails, opt_level=0, name="tvmconv.SplitTails"),
            tir.prim_func_pass(_prefetch_streams, opt_level=0, name="tvmconv.PrefetchStreams"),
            tir.prim_func_pass(_prefetch_results, opt_level=0, name="tvmconv.PrefetchResults"),
            tir.prim_func_pass(_transpose_copies, opt_level=0, name="tvmconv.TransposeCopies"),
            tir.prim_func_pass(_share_lanes, opt_level=0, name="tvmconv.ShareLaneVariables"),
            tir.FlattenBuffer(),
            tir.NarrowDataType(32),
            low.LoopPartition(),
            tir.prim_func_pass(_unify_widths, opt_level=0, name="tvmconv.UnifyWidths"),
            tir.VectorizeLoop(True),
            tir.StorageRewrite(),
            low.HoistIfThenElse(),
            tir.UnrollLoop(),
            low.RenormalizeSplitPattern(),
            tir.StmtSimplify(),
            tir.RemoveNoOp(),
            low.RewriteUnsafeSelect(),
            tir.prim_func_pass(_spill_lets, opt_level=0, name="tvmconv.SpillLets"),
            tir.prim_func_pass(_keep_on_stack, opt_level=0, name="tvmconv.KeepOnStack"),
            record_pass(),
            tir.VerifyMemory(),
            tir.AnnotateEntryFunc(),
            tir.SplitHostDevice(),
            tir.MakePackedAPI(),
        ],
        name="tvmconv.LowerFunctions",
    )


def _spill_lets(func: Any, _mod: Any, _context: Any) -> Any:
    return spill_lets(func)


def _prefetch_streams(func: Any, _mod: Any, _context: Any) -> Any:
    return prefetch_streams(func)


def _transpose_copies(func: Any, _mod: Any, _context: Any) -> Any:
    return transpose_copies(func)


def _prefetch_results(func: Any, _mod: Any, _context: Any) -> Any:
    return prefetch_results(func)


def _keep_on_stack(func: Any, _mod: Any, _context: Any) -> Any:
    return keep_on_stack(func)


def _split_tails(func: Any, _mod: Any, _context: Any) -> Any:
    return split_tails(func)


def _share_lanes(func: Any, _mod: Any, _context: Any) -> Any:
    """Give all vectorised loops of one extent the same variable.

    TVM's analyser remembers the range of every variable and consults all of them in every
    comparison, so that passes over an unrolled kernel with thousands of vector loops take
    quadratic time (25 s for one 7x7 first layer). The loops disappear with VectorizeLoop.
    """
    import tvm_ffi
    from tvm import ir, tirx

    shared: dict[tuple[int, str], Any] = {}
    names: dict[Any, Any] = {}

    def look(loop: Any) -> None:
        if int(loop.kind) == tirx.ForKind.VECTORIZED and isinstance(loop.extent, tirx.IntImm):
            kind = (int(loop.extent), str(loop.loop_var.ty))
            names[loop.loop_var] = shared.setdefault(kind, ir.Var("lane", loop.loop_var.ty))

    tvm_ffi.structural_walk(func.body, (tirx.For, look))
    if len(names) == len(shared):
        return func
    body = tvm_ffi.structural_map(func.body, (ir.Var, lambda var: names.get(var, var)))
    return func.with_body(body)


def _unify_widths(func: Any, _mod: Any, _context: Any) -> Any:
    """Repair sums of a 32-bit and a 64-bit integer.

    LoopPartition starts its loops at a 32-bit zero even where loops are 64 bits wide, as in a
    function that reads 64-bit indices; later passes reject such sums.
    """
    import tvm_ffi
    from tvm import tirx

    wide = False

    def look(loop: Any) -> None:
        nonlocal wide
        wide = wide or str(loop.loop_var.ty.dtype) == "int64"

    tvm_ffi.structural_walk(func.body, (tirx.For, look))
    if not wide:
        return func

    def repair(node: Any) -> Any:
        left, right = str(node.a.ty.dtype), str(node.b.ty.dtype)
        if {left, right} != {"int32", "int64"}:
            return node
        return tirx.Cast("int64", node.a) + tirx.Cast("int64", node.b)

    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.Add, repair)))
