"""Kernels by themselves: linked into a model whose operands all lie in its arena."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tvmconv.compile.network import CompiledProgram
from tvmconv.compile.objects import Objects, compile_objects
from tvmconv.compile.source import Facts
from tvmconv.core.decision import KernelCall
from tvmconv.core.version import __version__
from tvmconv.estimation.cache import digest
from tvmconv.estimation.cores import core_of
from tvmconv.estimation.estimate import Estimate, estimate_sections, layer_sections
from tvmconv.kernels.kernel import Kernel
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine
from tvmconv.program.program import ALIGNMENT, Call, Operand, Place, Program
from tvmconv.tvm_api.types import PrimFunc


def estimate_kernels(
    kernels: Sequence[Kernel], machine: Machine | None = None, model: str = ""
) -> Estimate:
    """Estimate kernels of one machine, each of them a layer.

    Their operands are zeros: no kernel takes longer for other numbers.

    Parameters
    ----------
    kernels
        Of one machine.
    machine
        The processor to estimate for; by default that of the kernels.
    model
        llvm-mca's name of a processor, in place of the one that stands for the machine.

    Raises
    ------
    ArtifactError
        If tools are missing; names them with their Debian packages.
    """
    own = kernels[0].machine
    symbols = [f"kernel{index}" for index in range(len(kernels))]
    functions = {
        symbol: kernel.prim_func().with_attr("global_symbol", symbol)
        for symbol, kernel in zip(symbols, kernels, strict=True)
    }
    calls = [
        _call(symbol, kernel, functions[symbol])
        for symbol, kernel in zip(symbols, kernels, strict=True)
    ]
    program, objects = compiled(functions, calls, own)
    key = digest(*symbols, *(objects.code[symbol] for symbol in symbols))
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path = Path(folder) / "kernels.so"
        facts = Facts("kernels", __version__, own.name, required_features(own), own.cores)
        with path.open("wb") as file:
            linked = CompiledProgram(program, objects, facts, own).file()
            linked.write_to(file.fileno(), b"")
        sections = layer_sections(path, own, len(kernels), key)
    records = [call.record for call in calls]
    return estimate_sections(sections, records, core_of(machine or own, model), own.triple)


def compiled(
    functions: dict[str, PrimFunc], calls: Sequence[Call], machine: Machine
) -> tuple[Program, Objects]:
    """A program without inputs and outputs, and its machine code."""
    from tvmconv.tvm_api.ir import IRModule

    arena = max(call.operands[-1].offset + call.operands[-1].bytes for call in calls)
    program = Program((), (), tuple(calls), (), 0, arena, arena)
    objects = compile_objects(IRModule(functions), machine, program)
    workspace = max(objects.workspace.values(), default=0)
    return replace(program, workspace_bytes=workspace), objects


def _call(symbol: str, kernel: Kernel, func: PrimFunc) -> Call:
    places, end = [], 0
    for buffer in func.params:
        shape = [int(extent) for extent in buffer.shape]
        size = int(np.prod(shape, dtype=np.int64)) * np.dtype(str(buffer.dtype)).itemsize
        places.append(Operand(Place.ARENA, end, size))
        end += -(-size // ALIGNMENT) * ALIGNMENT
    workload = kernel.workload
    record = KernelCall(str(workload), symbol, "conv2d", str(workload), workload.flops)
    return Call(record, tuple(places), kernel.algorithm)
