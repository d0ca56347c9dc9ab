"""Schedules every function that no earlier step has scheduled."""

from __future__ import annotations

from tvmconv.kernels.families import schedules_of
from tvmconv.machines.device import Device
from tvmconv.machines.record import Machine
from tvmconv.tir.general.infinite_extrema import InfiniteExtrema
from tvmconv.tir.general.nan_extrema import ConstantsFirst
from tvmconv.tir.general.relax_intrinsics import (
    VectorizableAngles,
    VectorizableDoubles,
    VectorizableMath,
    VectorizablePowers,
)
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tvm_api.types import IRModule, PrimFunc

SCHEDULED = "tirx.is_scheduled"


def schedule_function(func: PrimFunc, machine: Device) -> PrimFunc:
    """Schedule a ``tirx.PrimFunc`` in block form by the first rule of the family that fits.

    The result is marked as scheduled. Functions with this mark are returned unchanged.
    """
    from tvmconv.tvm_api.s_tir import ScheduleError

    if func.attrs and func.attrs.get(SCHEDULED):
        return func
    expressions = [VectorizableMath()]
    if isinstance(machine, Machine):
        expressions += [VectorizableAngles(), VectorizableDoubles(), VectorizablePowers()]
    func = transformed(func, *expressions, ConstantsFirst())
    for name in schedules_of(machine, "rules").RULES:
        try:
            schedule = schedules_of(machine, name).rule(func, machine)
        except ScheduleError:
            # TVM rejected a step that the rule's own checks allowed; the next rule is simpler
            continue
        if schedule is None:
            continue
        scheduled = schedule.mod["main"]
        if isinstance(machine, Machine):
            # a pass for GPUs does it, once TVM has lowered reductions across threads
            scheduled = transformed(scheduled, InfiniteExtrema())
        if func.attrs and "global_symbol" in func.attrs:
            scheduled = scheduled.with_attr("global_symbol", func.attrs["global_symbol"])
        return scheduled.with_attr(SCHEDULED, True)
    return func.with_attr(SCHEDULED, True)


def schedule_module(mod: IRModule, machine: Device) -> IRModule:
    """Schedule every unscheduled ``PrimFunc`` of a module; others are unchanged.

    If the list of rules has a function ``finished``, it is applied to each result.
    """
    from tvmconv.tvm_api import ir, tirx

    finished = getattr(schedules_of(machine, "rules"), "finished", None)
    functions = {}
    for var, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            func = schedule_function(func, machine)
            func = finished(func) if finished else func
        functions[var] = func
    return ir.IRModule(functions, attrs=mod.attrs)
