"""The passes between scheduled functions and LLVM, for one machine.

``print(pipeline(machine))`` shows them in order. They are TVM's own passes in TVM's order, with
passes of this package in between. TVM's passes for GPUs and for 8-bit floating-point types are left
out. So is common subexpression elimination, which LLVM does: on ResNet-50 it took a third of the
build and changed no run time. Each instruction family adds its passes at a :class:`Stage`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tvm
from tvm import ir, s_tir, tirx
from tvm.s_tir.pipeline import finalize_device_passes, finalize_host_passes

from tvmconv.machines.gate import GuardedCode
from tvmconv.machines.llvm_options import llvm_options
from tvmconv.machines.record import Machine
from tvmconv.tir import amx, general, neon, sve, x86
from tvmconv.tir.amx.allocate_tiles import TilePermission
from tvmconv.tir.general.activations import Activations
from tvmconv.tir.general.bound_loops import BoundLoops
from tvmconv.tir.general.c_functions import PACKED, CFunctions
from tvmconv.tir.general.combine_lanes import CombineLanes
from tvmconv.tir.general.copy_on_first_use import CopyOnFirstUse
from tvmconv.tir.general.hoisted_branches import HoistedBranches
from tvmconv.tir.general.joined_stores import JoinedStores
from tvmconv.tir.general.lower_blocks import block_passes
from tvmconv.tir.general.prefetch_results import PrefetchResults
from tvmconv.tir.general.prefetch_streams import PrefetchStreams
from tvmconv.tir.general.record_vector_code import RecordVectorCode
from tvmconv.tir.general.record_workspace import RecordWorkspace
from tvmconv.tir.general.share_lane_variables import ShareLaneVariables
from tvmconv.tir.general.specialize import Specialize
from tvmconv.tir.general.spill_lets import SpillLets
from tvmconv.tir.general.stack_buffers import StackBuffers
from tvmconv.tir.general.transpose_copies import TransposeCopies
from tvmconv.tir.general.unify_index_widths import UnifyIndexWidths
from tvmconv.tir.general.vector_tails import VectorTails
from tvmconv.tir.general.wrapping_sums import WrappingSums
from tvmconv.tir.stages import Stage

# architecture -> the families whose passes its machines use
FAMILIES = {"x86_64": (amx, x86), "aarch64": (neon, sve)}
# name of the TVM pipeline for functions that are already lowered
_LOWERED = "tvmconv.lowered"
_DRAFT_LEVEL = 1

# the last passes of a pipeline, which set the calling convention
Calls = Callable[[Machine], list[Any]]


def compile_function(
    function: Any, machine: Machine, draft: bool = False, calls: Calls | None = None
) -> GuardedCode:
    """Compile a scheduled function (or module) by the passes that build networks.

    In a ``draft``, LLVM optimizes less, and arguments are not checked. Schedules leave nothing for
    LLVM to hoist or to unroll, so that drafts are as fast within 2 %. Argument checks are most of
    the code of a small kernel. ``calls`` is the calling convention, by default TVM's
    (:func:`packed_calls`).
    """
    options = machine.tvm_target()
    if draft:
        calls, options = unchecked_calls, {**options, "opt-level": _DRAFT_LEVEL}
    target = tvm.target.Target(options)
    module = function if isinstance(function, ir.IRModule) else ir.IRModule.from_expr(function)
    bound = tirx.transform.BindTarget(_target_of_passes(machine, options))(module)
    _register()
    with llvm_options(machine):
        lowered = pipeline(machine, calls or packed_calls)(bound)
        return GuardedCode(tirx.build(lowered, target=target, pipeline=_LOWERED), machine)


def _target_of_passes(machine: Machine, options: dict[str, Any]) -> Any:
    """The target that TVM's passes see; code is generated for the whole one.

    For fixed-length vectors it has no attributes. For a RISC-V target with vectors, TVM would turn
    the vectorized loops of schedules into loops over scalable vectors.
    """
    from tvm.target import Target

    fixed = {key: value for key, value in options.items() if key not in ("mattr", "cl-opt")}
    target = Target(options if machine.vector.scalable else fixed)
    return target.with_host(target)


class Pipeline:
    """TVM passes in order."""

    def __init__(self, steps: Sequence[Any]) -> None:
        self.steps = tuple(steps)

    def __call__(self, module: Any) -> Any:
        """Run all passes on a module."""
        return ir.transform.Sequential(self.steps, name="tvmconv.LowerFunctions")(module)

    @property
    def names(self) -> list[str]:
        """The names of the passes. Names of this package begin with ``tvmconv.``."""
        return [step.info.name for step in self.steps]

    def __str__(self) -> str:
        return "\n".join(self.names)

    def until(self, name: str) -> Pipeline:
        """The passes up to and including one, named with or without ``tvmconv.``.

        Raises ``ValueError`` if no pass has this name.
        """
        for number, step in enumerate(self.steps, 1):
            if f".{step.info.name}".endswith(f".{name}"):
                return Pipeline(self.steps[:number])
        raise ValueError(f"unknown pass {name!r}; passes: {', '.join(dict.fromkeys(self.names))}")


def pipeline(machine: Machine, calls: Calls | None = None) -> Pipeline:
    """The passes for one machine."""
    ending = (calls or packed_calls)(machine)
    return Pipeline([*loop_passes(), *statement_passes(machine), *ending])


def loop_passes() -> list[Any]:
    """The passes from blocks to loops, which apply the annotations of schedules."""
    return [
        *block_passes(),
        Specialize(),  # before the others, so that they see each copy of a tile by itself
        BoundLoops(),  # after Specialize, which needs loops of constant extent
        CopyOnFirstUse(),
        VectorTails(),
        PrefetchStreams(),  # needs the dimensions of buffers, as do the next two passes
        PrefetchResults(),
        TransposeCopies(),
        CombineLanes(),
        # TVM inlines a result twice if it is read twice, with the variables that it defines.
        # VectorizeLoop needs unique definitions
        tirx.transform.ConvertSSA(),
    ]


def statement_passes(machine: Machine) -> list[Any]:
    """The passes from loops to the statements, vectors and buffers that LLVM sees."""
    tir, low = tirx.transform, s_tir.transform
    families = FAMILIES.get(machine.architecture, (general,))
    added = [family.passes(machine) for family in families]

    def of(stage: Stage) -> list[Any]:
        return [step for each in added for step in each.get(stage, ())]

    # few passes support scalable vectors; these passes match the arithmetic of activations
    late = [*of(Stage.SCALABLE), *of(Stage.LAST)]
    return [
        ShareLaneVariables(),  # not before ConvertSSA, which would undo it
        tir.FlattenBuffer(),
        *of(Stage.FLAT),
        tir.NarrowDataType(32),
        low.LoopPartition(),
        UnifyIndexWidths(),  # repairs what LoopPartition leaves
        tir.VectorizeLoop(True),
        tir.StorageRewrite(),
        HoistedBranches(),
        # indices are normalized before loops are unrolled, unlike in TVM. The code is the same, and
        # a Winograd kernel with thousands of statements builds in 80 % of the time
        low.RenormalizeSplitPattern(),
        tir.StmtSimplify(),
        tir.RemoveNoOp(),
        tir.UnrollLoop(),
        tir.StmtSimplify(),
        low.RewriteUnsafeSelect(),
        *of(Stage.MULTIPLIES),
        tir.BF16ComputeLegalize(),  # after dot products, whose operands would become float32
        JoinedStores(),
        *of(Stage.STORES),
        *of(Stage.LOADS),
        SpillLets(),  # after VectorizeLoop: a buffer holds a whole vector.
        StackBuffers(),  # after StorageRewrite, which replaces allocations.
        RecordWorkspace(),  # counts buffers that are not on the stack.
        *([Activations(), *late] if late else []),
        WrappingSums(),  # after all passes that match sums
        *([] if late else [Activations()]),  # last, because passes take time for each expression
        *([RecordVectorCode()] if machine.vector.scalable else []),
        tir.VerifyMemory(),
    ]


def packed_calls(machine: Machine) -> list[Any]:
    """The last passes for functions that TVM's runtime calls, with checks of arguments."""
    tir = tirx.transform
    ending = [tir.AnnotateEntryFunc(), tir.SplitHostDevice(), tir.MakePackedAPI()]
    return [*_permission(machine), *ending, tir.BF16StorageLegalize()]


def c_calls(_: Machine) -> list[Any]:
    """The last passes for C functions, which the code of a program calls."""
    return [CFunctions(), tirx.transform.BF16StorageLegalize()]


def joined_calls(machine: Machine) -> list[Any]:
    """The last passes for C functions, and for functions of the same module that TVM calls."""

    def apply(mod: Any, _context: Any) -> Any:
        functions = dict(mod.functions_items())
        packed = {var for var, func in functions.items() if PACKED in (func.attrs or {})}
        done = {}
        for chosen, passes in (
            (packed, packed_calls(machine)),
            (functions.keys() - packed, [*_permission(machine), *c_calls(machine)]),
        ):
            part = ir.IRModule({var: functions[var] for var in chosen}, attrs=mod.attrs)
            done.update(ir.transform.Sequential(passes)(part).functions_items())
        return ir.IRModule(done, attrs=mod.attrs)

    return [ir.transform.module_pass(apply, opt_level=0, name="tvmconv.JoinedCalls")]


def unchecked_calls(machine: Machine) -> list[Any]:
    """The last passes for drafts, without checks of arguments."""
    return [*packed_calls(machine), tirx.transform.SkipAssert()]


def _permission(machine: Machine) -> list[Any]:
    return [TilePermission()] if machine.tiles else []


def _register() -> None:
    """Register the TVM pipeline that leaves lowered functions to LLVM."""

    def factory() -> tuple[Any, Any, Any]:
        return ir.transform.Sequential([]), finalize_host_passes, finalize_device_passes

    tirx.register_tir_pipeline(_LOWERED, factory)
