"""From the lowered graph to a shared object without TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from tvmconv.compile.gpu import compile_gpu
from tvmconv.compile.machine_code import Objects
from tvmconv.compile.objects import compile_objects
from tvmconv.compile.program import CompiledProgram
from tvmconv.compile.source import Facts
from tvmconv.core.interrupts import checkpoint
from tvmconv.core.tensor import TensorInfo
from tvmconv.core.version import __version__
from tvmconv.kernels.compiler_lock import compiler_lock
from tvmconv.kernels.rules import schedule_module
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.device import Device
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine
from tvmconv.program.collect import VIEW, collect
from tvmconv.program.program import Call, Program
from tvmconv.tvm_api.types import IRModule


class Lowered(Protocol):
    """The part of ``tvmconv.graph.lower.LoweredGraph`` that :func:`compile_program` needs."""

    @property
    def mod(self) -> IRModule:
        """Relax function ``main`` and the functions that it calls."""


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


def compile_program(
    lowered: Lowered,
    machine: Device,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    *,
    name: str = "",
    cc: str = "",
) -> CompiledProgram:
    """Schedule functions that have no schedule yet, plan memory and generate machine code.

    In ``lowered`` every operator is a call of a ``PrimFunc``. ``cc`` names the C compiler, as for
    :meth:`~tvmconv.compile.toolchain.Toolchain.find`. Raises ``ModelError`` if an operator needs
    TVM's virtual machine or runtime; names the operator.
    """
    calls, decisions = getattr(lowered, "calls", ()), getattr(lowered, "decisions", ())
    with compiler_lock():
        module = scheduled(lowered.mod, machine)
        program, functions = collect(module, inputs, outputs, calls, decisions)
    return compile_functions(program, functions, machine, name=name, cc=cc)


def compile_functions(
    program: Program, functions: IRModule, machine: Device, *, name: str = "", cc: str = ""
) -> CompiledProgram:
    """Generate machine code of the functions that a program, and programs with it, call."""
    objects = _BACK_ENDS[machine.kind](functions, machine, program)
    program = program.mapped(lambda call: _with_code(call, objects))
    others = tuple(_with_workspace(each, objects) for each in program.others)
    program = replace(_with_workspace(program, objects), others=others)
    facts = Facts(
        name=name,
        version=__version__,
        target=machine.name,
        features=required_features(machine),
        threads=machine.cores,
        vector_bits=machine.exact_vector_bits if isinstance(machine, Machine) else 0,
    )
    return CompiledProgram(program, objects, facts, machine, cc)


def _for_gpu(functions: IRModule, machine: CudaMachine, _program: Program) -> Objects:
    return Objects({}, {}, gpu=compile_gpu(functions, machine))


# compilers of kernels, by kind of device
_BACK_ENDS: dict[str, Callable[[IRModule, Any, Program], Objects]] = {
    Machine.kind: compile_objects,
    CudaMachine.kind: _for_gpu,
}


def _with_code(call: Call, objects: Objects) -> Call:
    """A call with facts about its machine code."""
    kernel = call.record.kernel
    launches = objects.gpu.launches.get(kernel, ()) if objects.gpu else ()
    vectors = objects.vectors.get(kernel, "")
    return replace(call, record=replace(call.record, vectors=vectors, launches=launches))


def _with_workspace(program: Program, objects: Objects) -> Program:
    """A program with the maximum scratch memory of its kernels."""
    kernels = {call.record.kernel for call in program.all_calls()}
    sizes = (size for kernel, size in objects.workspace.items() if kernel in kernels)
    return replace(program, workspace_bytes=max(sizes, default=0))
