"""The passes between scheduled functions and CUDA source.

They are TVM's own passes in TVM's order, with passes of this package in between.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import ir, s_tir, tirx

from tvmconv.machines.cuda import CudaMachine
from tvmconv.tir.cuda import double_buffers, predicated_loads, predicated_stores, tap_tables
from tvmconv.tir.cuda.barriers import Barriers
from tvmconv.tir.cuda.extrema import Extrema
from tvmconv.tir.cuda.full_warps import FullWarps
from tvmconv.tir.cuda.late_rounding import LateRounding
from tvmconv.tir.cuda.mma import Fragments, MmaCalls, has_fragments
from tvmconv.tir.cuda.paired_stores import PairedStores
from tvmconv.tir.cuda.scalar_registers import ScalarRegisters
from tvmconv.tir.cuda.unroll_slice_pairs import UnrollSlicePairs
from tvmconv.tir.general.activations import Activations
from tvmconv.tir.general.infinite_extrema import InfiniteExtrema
from tvmconv.tir.general.rewrite import function_pass, transformed
from tvmconv.tir.pipeline import Pipeline


def pipeline(machine: CudaMachine) -> Pipeline:
    """All passes for one GPU."""
    return Pipeline([*function_passes(machine), kernels_alone(), *kernel_passes()])


def function_passes(machine: CudaMachine) -> list[Any]:
    """The passes from scheduled functions to kernels and host functions that launch them."""
    target = tvm.target.Target(machine.tvm_target())
    return [tirx.transform.BindTarget(target.with_host(tvm.target.Target("llvm"))), *loop_passes()]


def loop_passes() -> list[Any]:
    """The passes for functions that have a target."""
    low, tir = s_tir.transform, tirx.transform
    return [
        Activations(),
        low.CanonicalizeLoop(),
        low.LowerCrossThreadReduction(),
        InfiniteExtrema(),
        low.LowerInitBlock(),
        low.PlanAndUpdateBufferAllocationLocation(),
        low.ConvertBlocksToOpaque(),
        low.LiftThreadBinding(),
        low.ManifestSharedMemoryLocalStage(),
        low.CompactBufferAllocation(),
        low.LowerAutoCopy(),
        low.UnifyThreadBinding(),
        low.LowerMatchBuffer(),
        low.StmtSimplify(),
        low.InjectSoftwarePipeline(),
        low.LowerOpaqueBlock(),
        tir.FlattenBuffer(),
        tir.NarrowDataType(32),
        low.LoopPartition(),
        tir.VectorizeLoop(True),
        low.InjectVirtualThread(),
        low.InjectDoubleBuffer(),
        tir.StorageRewrite(),
        low.HoistIfThenElse(),
        tir.UnrollLoop(),
        low.RenormalizeSplitPattern(),
        tir.StmtSimplify(),
        tir.RemoveNoOp(),
        low.RewriteUnsafeSelect(),
        tir.VerifyMemory(),
        low.ThreadSync("shared"),
        low.ThreadSync("shared.dyn"),
        Barriers(),
        # after Barriers, which needs whole indices
        CommonExpressions(),
        low.ThreadSync("warp"),
        low.LowerThreadAllreduce(),
        Extrema(),
        low.MergeSharedMemoryAllocations(),
        tir.SplitHostDevice(),
    ]


def kernel_passes() -> list[Any]:
    """The passes that rewrite kernels alone, after the split from host functions."""
    loads, stores = predicated_loads.PredicatedLoads(), predicated_stores.PredicatedStores()
    taps, pairs = tap_tables.TapTables(), UnrollSlicePairs()
    last = [double_buffers.DoubleBuffers(), MmaCalls(), ScalarRegisters(), FullWarps()]
    rounding, paired = LateRounding(), PairedStores()
    return [Fragments(), paired, loads, rounding, stores, taps, pairs, *last]


def CommonExpressions() -> Any:
    """TVM's common subexpression elimination for functions without warp fragments.

    Pattern: a function without buffers of the scope ``warp``.

    Rewrite: as ``CommonSubexprElim``.

    Why here: after the removal of barriers, which needs whole indices. Functions with fragments are
    left out, because LowerWarpMemory has to see the lane in every index of a fragment.
    """

    def rewrite(func: Any) -> Any:
        if has_fragments(func):
            return func
        return transformed(func, tirx.transform.CommonSubexprElim())

    return function_pass("cuda.CommonExpressions", rewrite)


def kernels_alone() -> Any:
    """A pass that leaves out the host functions, which launch the kernels."""

    def apply(module: Any, _: Any) -> Any:
        return ir.IRModule({var: f for var, f in module.functions_items() if is_kernel(f)})

    return ir.transform.module_pass(apply, opt_level=0, name="tvmconv.cuda.KernelsAlone")


def is_kernel(func: Any) -> bool:
    """Whether a function of a module after ``SplitHostDevice`` is a kernel."""
    return "tirx.kernel_launch_params" in func.attrs
