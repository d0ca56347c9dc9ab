"""The Relax passes between the lowered graph and the virtual machine's code."""

from __future__ import annotations

from typing import Any

from tvmconv.compile.schedule import SCHEDULED, schedule_module
from tvmconv.machine import Machine

# relax.op_pattern_kind: what FuseOps may put around a function
_OUT_ELEMENTWISE_FUSABLE = 4
_OPAQUE = 8

# Cheap work may follow these, nothing may be inlined into their many reads.
_READS_OFTEN = ("max_pool", "avg_pool", "to_blocked", "from_blocked", "lrn", "shuffle")
_COMPLETE = ("dense", "softmax", "log_softmax", "global_pool")


def lower_pass(machine: Machine) -> Any:
    """The whole pipeline as one module pass.

    It differs from TVM's default in leaving out what the lowered graph makes needless (library
    dispatch, constant folding) and in scheduling the functions once they are fused.
    """
    from tvm import ir, relax

    transform = relax.transform

    def run(mod: Any, _context: Any) -> Any:
        mod = transform.LegalizeOps()(mod)
        mod = mark_patterns(mod)
        mod = ir.transform.Sequential(
            [
                transform.AnnotateTIROpPattern(),
                transform.FuseOps(),
                transform.FuseTIR(),
                transform.DeadCodeElimination(),
                transform.RewriteDataflowReshape(),
            ]
        )(mod)
        mod = schedule_module(mod, machine)
        return ir.transform.Sequential(
            [
                transform.ToNonDataflow(),
                transform.RemovePurityChecking(),
                transform.CallTIRRewrite(),
                transform.StaticPlanBlockMemory(),
                transform.LowerAllocTensor(),
                transform.KillAfterLastUse(),
                transform.LowerRuntimeBuiltin(),
                transform.ComputePrimValue(),
                transform.VMShapeLower(),
                transform.AttachGlobalSymbol(),
            ]
        )(mod)

    return ir.transform.module_pass(run, opt_level=0, name="tvmconv.Lower")


def mark_patterns(mod: Any) -> Any:
    """Tell FuseOps which functions it must leave alone.

    A scheduled function would lose its schedule, and an operator with many reads per result
    (pooling) or several blocks (softmax) would repeat what is fused into it.
    """
    import tvm_ffi
    from tvm import ir, s_tir, tirx

    def operators(func: Any) -> set[str]:
        found: set[str] = set()

        def look(block: Any) -> None:
            name = block.annotations.get("tvmconv.operator")
            if name is not None:
                found.add(str(name))

        tvm_ffi.structural_walk(func.body, (s_tir.SBlock, look))
        return found

    functions = {}
    for var, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            if func.attrs and func.attrs.get(SCHEDULED):
                func = func.with_attr("op_pattern", _OPAQUE)
            else:
                names = operators(func)
                if names & set(_COMPLETE):
                    func = func.with_attr("op_pattern", _OPAQUE)
                elif names & set(_READS_OFTEN):
                    func = func.with_attr("op_pattern", _OUT_ELEMENTWISE_FUSABLE)
        functions[var] = func
    return ir.IRModule(functions, attrs=mod.attrs)
