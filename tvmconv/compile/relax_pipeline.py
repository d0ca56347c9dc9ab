"""The Relax passes between the lowered graph and the virtual machine's code."""

from __future__ import annotations

from tvmconv.compile.patterns import mark_patterns
from tvmconv.core.interrupts import checkpoint
from tvmconv.kernels.rules import schedule_module
from tvmconv.machines.record import Machine
from tvmconv.tvm_api.types import IRModule, Pass

__all__ = ["lower_pass", "mark_patterns"]


def lower_pass(machine: Machine) -> Pass:
    """The whole pipeline as one module pass.

    It differs from TVM's default in leaving out what a lowered graph makes needless (fusion,
    constant folding) and in scheduling every function before code generation.
    """
    from tvmconv.tvm_api import ir, relax

    transform = relax.transform

    def run(mod: IRModule, _context: object) -> IRModule:
        mod = ir.transform.Sequential(
            [
                relax.backend.DispatchSortScan(),
                transform.LegalizeOps(),
                transform.RewriteDataflowReshape(),
            ]
        )(mod)
        checkpoint()
        mod = schedule_module(mod, machine)
        checkpoint()
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
