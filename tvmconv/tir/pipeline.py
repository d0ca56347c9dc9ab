"""The passes between scheduled functions and LLVM, as a named pipeline of ``tirx.build``.

They are TVM's own in TVM's order, without those that concern GPUs and narrow floating-point types
only, without the elimination of common subexpressions (LLVM does it; on ResNet-50 it took a third
of the build and changed no time), and with those of this package in between.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tvmconv.machines.dot import permuted_bytes
from tvmconv.machines.gate import Code
from tvmconv.machines.llvm_options import llvm_options
from tvmconv.machines.record import Machine
from tvmconv.tir.amx.allocate_tiles import TilePermission, TileRegisters
from tvmconv.tir.amx.software_pipeline import TilePipeline
from tvmconv.tir.amx.tile_calls import TileCalls
from tvmconv.tir.general.bound_loops import BoundLoops
from tvmconv.tir.general.byte_tables import PERMUTES, Lookups
from tvmconv.tir.general.c_functions import PACKED, BareFunctions
from tvmconv.tir.general.copy_on_first_use import FirstUse
from tvmconv.tir.general.dot_products import DotProducts
from tvmconv.tir.general.joined_stores import PairedStores
from tvmconv.tir.general.lower_blocks import block_passes
from tvmconv.tir.general.narrowing import AARCH64, Narrowing
from tvmconv.tir.general.prefetch_results import PrefetchResults
from tvmconv.tir.general.prefetch_streams import PrefetchStreams
from tvmconv.tir.general.record_vector_code import RecordVectorCode
from tvmconv.tir.general.record_workspace import RecordWorkspace
from tvmconv.tir.general.rewrite import marked
from tvmconv.tir.general.share_lane_variables import ShareLaneVariables
from tvmconv.tir.general.specialize import Specialise
from tvmconv.tir.general.spill_lets import SpillLets
from tvmconv.tir.general.stack_buffers import KeepOnStack
from tvmconv.tir.general.transpose_copies import TransposeCopies
from tvmconv.tir.general.unify_index_widths import UnifyWidths
from tvmconv.tir.general.vector_tails import SplitTails
from tvmconv.tir.general.wrapping_sums import WrappingSums
from tvmconv.tir.neon.extrema import EXTREMA, Extrema
from tvmconv.tir.neon.first_terms import FirstTerms
from tvmconv.tir.neon.inorder_half_loads import HALVED, HalvedLoads
from tvmconv.tir.neon.inorder_unroll import StraightSums
from tvmconv.tir.neon.long_indices import LongIndices
from tvmconv.tir.neon.matrix_products import MatrixProducts
from tvmconv.tir.neon.multiply_by_lane import LANES, ByLane
from tvmconv.tir.neon.narrowing import ADDS
from tvmconv.tir.neon.neighbor_lanes import NeighbouringWords
from tvmconv.tir.neon.paired_taps import PairedTaps
from tvmconv.tir.neon.zip_rows import InterleavedRows
from tvmconv.tir.sve.vectorize_pixels import Segments

PIPELINE = "tvmconv"
# functions of C: see tvmconv.tir.general.c_functions
BARE = "tvmconv.bare"
# the same, but for those with the attribute `PACKED`, which call them
JOINED = "tvmconv.joined"
_DRAFT = "tvmconv.draft"
_DRAFT_LEVEL = 1


def register() -> str:
    """Make the pipelines known to TVM and return the name of the first."""
    from tvm import tirx

    tirx.register_tir_pipeline(PIPELINE, partial(_factory, packed_calls))
    tirx.register_tir_pipeline(_DRAFT, partial(_factory, unchecked_calls))
    tirx.register_tir_pipeline(BARE, partial(_factory, bare_calls))
    tirx.register_tir_pipeline(JOINED, partial(_factory, joined_calls))
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
    code = machine.code
    asked = {LANES: code.by_lane and machine.lanes, EXTREMA: code.extrema}
    asked[HALVED] = code.halved_loads
    asked[ADDS] = code.slow_conversions
    asked[PERMUTES] = permuted_bytes(machine)
    asked[AARCH64] = machine.triple.startswith("aarch64")
    function = marked(function, {name: int(value) for name, value in asked.items() if value})
    options = machine.tvm_target()
    if draft:
        pipeline, options = _DRAFT, {**options, "opt-level": _DRAFT_LEVEL}
    target = tvm.target.Target(options)
    with llvm_options(machine):
        return Code(tvm.tirx.build(function, target=target, pipeline=pipeline), machine)


def loop_passes() -> list[Any]:
    """From blocks to the loops that run: what the annotations of schedules ask for."""
    from tvm import tirx

    return [
        *block_passes(),
        Specialise(),  # before the others: they see each copy of a tile by itself
        BoundLoops(),  # the one before takes loops of constant extent
        FirstUse(),
        SplitTails(),
        PrefetchStreams(),  # needs the dimensions of buffers, as the next two do
        PrefetchResults(),
        TransposeCopies(),
        # a result that is read twice is inlined twice, with the variables its expression defines;
        # VectorizeLoop takes each definition once
        tirx.transform.ConvertSSA(),
    ]


def statement_passes() -> list[Any]:
    """From loops to the statements, vectors and buffers that LLVM sees."""
    from tvm import s_tir, tirx

    tir, low = tirx.transform, s_tir.transform
    return [
        ShareLaneVariables(),  # not before ConvertSSA, which would undo it
        tir.FlattenBuffer(),
        TileCalls(),
        tir.NarrowDataType(32),
        low.LoopPartition(),
        UnifyWidths(),  # repairs what LoopPartition leaves
        tir.VectorizeLoop(True),
        tir.StorageRewrite(),
        low.HoistIfThenElse(),
        # indices are normalised before loops are unrolled, not after as in TVM: the code is the
        # same, and a Winograd kernel with thousands of statements builds in four fifths
        low.RenormalizeSplitPattern(),
        tir.StmtSimplify(),
        tir.RemoveNoOp(),
        tir.UnrollLoop(),
        tir.StmtSimplify(),
        low.RewriteUnsafeSelect(),
        TileRegisters(),
        MatrixProducts(),  # those of words of 64 bits
        InterleavedRows(),  # as the next two
        PairedTaps(),
        NeighbouringWords(),  # indices differ in constants only behind the two before
        DotProducts(),
        PairedStores(),
        Narrowing(),
        TilePipeline(),  # stores of an epilogue are one where they are narrowed together
        Lookups(),
        ByLane(),  # indices are constants and multiples only behind the two before
        StraightSums(),  # of the vectors that ByLane leaves, as the next one does
        HalvedLoads(),
        SpillLets(),  # after VectorizeLoop: a buffer holds a whole vector
        KeepOnStack(),  # after StorageRewrite, which makes allocations anew
        RecordWorkspace(),  # counts what is not on the stack
        Segments(),  # behind most: few passes take vectors of unknown length
        Extrema(),  # after Segments, which knows sums and maxima, and no function of LLVM
        FirstTerms(),
        LongIndices(),
        WrappingSums(),  # behind all that looks for sums
        RecordVectorCode(),
        tir.VerifyMemory(),
    ]


def packed_calls() -> list[Any]:
    """The end of the list for functions that TVM's runtime calls: their arguments are checked."""
    from tvm import tirx

    tir = tirx.transform
    return [TilePermission(), tir.AnnotateEntryFunc(), tir.SplitHostDevice(), tir.MakePackedAPI()]


def bare_calls() -> list[Any]:
    """The end of the list for functions of C, which the code of a program calls."""
    return [BareFunctions()]


def joined_calls() -> list[Any]:
    """The end of the list for functions of C together with functions that call them for TVM."""
    from tvm import ir

    def apply(mod: Any, _context: Any) -> Any:
        functions = dict(mod.functions_items())
        packed = {var for var, func in functions.items() if PACKED in (func.attrs or {})}
        done = {}
        for chosen, passes in (
            (packed, packed_calls()),
            (functions.keys() - packed, [TilePermission(), *bare_calls()]),
        ):
            part = ir.IRModule({var: functions[var] for var in chosen}, attrs=mod.attrs)
            done.update(ir.transform.Sequential(passes)(part).functions_items())
        return ir.IRModule(done, attrs=mod.attrs)

    return [ir.transform.module_pass(apply, opt_level=0, name="tvmconv.JoinedCalls")]


def unchecked_calls() -> list[Any]:
    """The end of the list for drafts: arguments are taken as they come."""
    from tvm import tirx

    return [*packed_calls(), tirx.transform.SkipAssert()]


def _factory(calls: Any) -> tuple[Any, Any, Any]:
    from tvm import ir
    from tvm.s_tir.pipeline import finalize_device_passes, finalize_host_passes

    passes = [*loop_passes(), *statement_passes(), *calls()]
    lower = ir.transform.Sequential(passes, name="tvmconv.LowerFunctions")
    return lower, finalize_host_passes, finalize_device_passes
