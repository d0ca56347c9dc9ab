"""The Relax passes between the lowered graph and the calls of a program."""

from __future__ import annotations

from tvmconv.core.interrupts import checkpoint
from tvmconv.kernels.rules import schedule_module
from tvmconv.machines.device import Device
from tvmconv.program.collect import VIEW
from tvmconv.tvm_api.types import IRModule


def legalized(mod: IRModule) -> IRModule:
    """The lowered graph with every operator a ``call_tir`` or a view."""
    from tvmconv.tvm_api import ir, relax, tirx

    passes = [relax.transform.LegalizeOps(), relax.transform.RewriteDataflowReshape()]
    mod = ir.transform.Sequential(passes)(mod)
    # RewriteDataflowReshape keeps a reshape whose result is an output of the model
    functions = {
        var: func.with_attr(VIEW, True)
        if isinstance(func, tirx.PrimFunc) and relax.analysis.has_reshape_pattern(func)
        else func
        for var, func in mod.functions_items()
    }
    return ir.IRModule(functions, attrs=mod.attrs)


def scheduled(mod: IRModule, machine: Device) -> IRModule:
    """The same with every function scheduled."""
    mod = legalized(mod)
    checkpoint()
    mod = schedule_module(mod, machine)
    checkpoint()
    return mod
