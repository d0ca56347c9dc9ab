"""The passes between scheduled functions and LLVM, as a named pipeline of ``tirx.build``.

They are TVM's own in TVM's order, without those that concern GPUs and narrow floating-point types
only, without the elimination of common subexpressions (LLVM does it; on ResNet-50 it took a third
of the build and changed no time), and with additions for remainders and for linear build times.
Index arithmetic is normalised before loops are unrolled rather than after: the machine code is the
same, and a Winograd kernel with its thousands of unrolled statements builds in four fifths.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from tvmconv.machines.gate import Code
from tvmconv.machines.record import Machine
from tvmconv.tir.bare import bare_functions
from tvmconv.tir.blocks import block_passes
from tvmconv.tir.lets import spill_lets
from tvmconv.tir.prefetch_results import prefetch_results
from tvmconv.tir.prefetch_streams import prefetch_streams
from tvmconv.tir.rewrite import substitute
from tvmconv.tir.stack import keep_on_stack
from tvmconv.tir.tails import split_tails
from tvmconv.tir.transposes import transpose_copies
from tvmconv.tir.workspace import record_pass

PIPELINE = "tvmconv"
# functions of C: see tvmconv.tir.bare
BARE = "tvmconv.bare"
_DRAFT = "tvmconv.draft"
_DRAFT_LEVEL = 1
# TVM's own passes, for functions that are written as they are to run
PLAIN = "default"


def register() -> str:
    """Make the pipelines known to TVM and return the name of the first."""
    from tvm import tirx

    tir = tirx.transform
    packed = tir.AnnotateEntryFunc(), tir.SplitHostDevice(), tir.MakePackedAPI()
    tirx.register_tir_pipeline(PIPELINE, partial(_factory, *packed))
    tirx.register_tir_pipeline(_DRAFT, partial(_factory, *packed, tir.SkipAssert()))
    tirx.register_tir_pipeline(BARE, partial(_factory, bare_functions()))
    return PIPELINE


def compile_function(
    function: Any, machine: Machine, draft: bool = False, pipeline: str = PIPELINE
) -> Code:
    """Machine code of a scheduled function (or module), by the passes of a built network.

    A draft is made with fewer of LLVM's, and does not check its arguments. Schedules leave LLVM
    vector code without anything to hoist or to unroll, so that drafts run as fast within two
    hundredths; the checks are most of the code of a small kernel.
    """
    import tvm

    register()
    options = machine.tvm_target()
    if draft:
        pipeline, options = _DRAFT, {**options, "opt-level": _DRAFT_LEVEL}
    target = tvm.target.Target(options)
    return Code(tvm.tirx.build(function, target=target, pipeline=pipeline), machine)


def _factory(*last: Any) -> tuple[Any, Any, Any]:
    from tvm.s_tir.pipeline import finalize_device_passes, finalize_host_passes

    return _lower(*last), finalize_host_passes, finalize_device_passes


def _lower(*last: Any) -> Any:
    from tvm import ir, s_tir, tirx

    tir, low = tirx.transform, s_tir.transform
    return ir.transform.Sequential(
        [
            *block_passes(),
            _pass("tvmconv.SplitTails", split_tails),
            _pass("tvmconv.PrefetchStreams", prefetch_streams),
            _pass("tvmconv.PrefetchResults", prefetch_results),
            _pass("tvmconv.TransposeCopies", transpose_copies),
            # a result that is read twice is inlined twice, with the variables its expression
            # defines; VectorizeLoop takes each definition once
            tir.ConvertSSA(),
            _pass("tvmconv.ShareLaneVariables", _share_lanes),
            tir.FlattenBuffer(),
            tir.NarrowDataType(32),
            low.LoopPartition(),
            _pass("tvmconv.UnifyWidths", _unify_widths),
            tir.VectorizeLoop(True),
            tir.StorageRewrite(),
            low.HoistIfThenElse(),
            low.RenormalizeSplitPattern(),
            tir.StmtSimplify(),
            tir.RemoveNoOp(),
            tir.UnrollLoop(),
            tir.StmtSimplify(),
            low.RewriteUnsafeSelect(),
            _pass("tvmconv.SpillLets", spill_lets),
            _pass("tvmconv.KeepOnStack", keep_on_stack),
            record_pass(),
            tir.VerifyMemory(),
            *last,
        ],
        name="tvmconv.LowerFunctions",
    )


def _pass(name: str, rewrite: Callable[[Any], Any]) -> Any:
    from tvm import tirx

    def apply(func: Any, _mod: Any, _context: Any) -> Any:
        return rewrite(func)

    return tirx.transform.prim_func_pass(apply, opt_level=0, name=name)


def _share_lanes(func: Any) -> Any:
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
    return func.with_body(substitute(func.body, names))


def _unify_widths(func: Any) -> Any:
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
