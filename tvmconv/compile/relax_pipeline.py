"""The Relax passes between the lowered graph and the calls of a program."""

from __future__ import annotations

from typing import Any

from tvmconv.compile.patterns import mark_patterns
from tvmconv.core.interrupts import checkpoint
from tvmconv.kernels.rules import schedule_module
from tvmconv.machines.record import Machine
from tvmconv.program.collect import VIEW

__all__ = ["legalised", "lower_pass", "mark_patterns", "scheduled"]


def legalised(mod: Any) -> Any:
    """The lowered graph with every operator a ``call_tir`` or a view.

    Parameters
    ----------
    mod
        ``mod`` of :func:`tvmconv.graph.lower.lower`'s result.
    """
    from tvm import ir, relax, tirx

    passes = [relax.transform.LegalizeOps(), relax.transform.RewriteDataflowReshape()]
    mod = ir.transform.Sequential(passes)(mod)
    # a function of the form of a reshape is left where its result is the model's
    functions = {
        var: func.with_attr(VIEW, True)
        if isinstance(func, tirx.PrimFunc) and relax.analysis.has_reshape_pattern(func)
        else func
        for var, func in mod.functions_items()
    }
    return ir.IRModule(functions, attrs=mod.attrs)


def scheduled(mod: Any, machine: Machine) -> Any:
    """The same with every function scheduled."""
    mod = legalised(mod)
    checkpoint()
    mod = schedule_module(mod, machine)
    checkpoint()
    return mod


def lower_pass(machine: Machine) -> Any:
    """The whole pipeline as one module pass.

    It differs from TVM's default in leaving out what a lowered graph makes needless (fusion,
    constant folding) and in scheduling every function before code generation.
    """
    from tvm import ir, relax

    transform = relax.transform

    def run(mod: Any, _context: Any) -> Any:
        mod = scheduled(mod, machine)
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
