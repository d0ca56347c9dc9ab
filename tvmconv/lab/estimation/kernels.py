"""Kernels by themselves: linked into a model whose layers they are."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tvmconv.compile.objects import compile_objects
from tvmconv.compile.program import CompiledProgram
from tvmconv.compile.source import Facts
from tvmconv.core.decision import KernelCall
from tvmconv.core.tensor import Array, TensorInfo
from tvmconv.core.version import __version__
from tvmconv.kernels.gemm import GemmKernel
from tvmconv.kernels.kernel import Kernel
from tvmconv.lab.estimation.cache import digest
from tvmconv.lab.estimation.cores import core_of
from tvmconv.lab.estimation.counting import Section, count
from tvmconv.lab.estimation.estimate import (
    Estimate,
    estimate_sections,
    layer_sections,
    qemu_options,
)
from tvmconv.lab.estimation.tools import layers_program
from tvmconv.machines.features import required_features
from tvmconv.machines.record import Machine, processor
from tvmconv.program.program import ALIGNMENT, Call, Constant, Operand, Place, Program
from tvmconv.tir.general.partial_kernels import LeaveOutBlocks
from tvmconv.tir.general.rewrite import transformed
from tvmconv.tvm_api.types import PrimFunc


def estimate_kernels(
    kernels: Sequence[Kernel | GemmKernel], machine: Machine | None = None
) -> Estimate:
    """Estimate kernels of one machine, each of them a layer; their operands are zeros.

    ``machine`` is as of :func:`~tvmconv.lab.estimation.estimate.estimate_model`.
    Raises :class:`ArtifactError` if tools are missing; names them with their Debian packages.
    """
    own, layout = processor(kernels[0].machine), Layers()
    for kernel in kernels:
        layout.add(kernel)
    code = layout.compiled(own)
    key = digest(*(part for item in code.objects.code.items() for part in item))
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path = written(code, Path(folder))
        sections = layer_sections(path, own, len(kernels), key)
    records = [call.record for call in layout.calls]
    return estimate_sections(sections, records, core_of(machine or own), own.triple)


def run_kernels(
    kernels: Sequence[Kernel],
    operands: Sequence[Sequence[Array]],
    seconds: float | None = None,
) -> tuple[Estimate, list[Array]]:
    """Estimate kernels of one machine, as :func:`estimate_kernels`, while they compute results.

    ``operands`` of each are its inputs and an array of the shape of its result; shared arrays are
    stored once. Returns the estimate, and the results. Raises :class:`ArtifactError` also if the
    code crashes, or the emulation takes more than ``seconds``.
    """
    own, layout = processor(kernels[0].machine), Layers()
    for kernel, arrays in zip(kernels, operands, strict=True):
        layout.add(kernel, arrays)
    code = layout.compiled(own)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path, output = written(code, Path(folder)), Path(folder) / "outputs"
        command = [layers_program(own.triple), path, output]
        found = count(command, own.triple, options=qemu_options(own), seconds=seconds)
        results = []
        with output.open("rb") as file:
            for info in layout.outputs:
                flat = np.fromfile(file, info.dtype, int(np.prod(info.shape, dtype=np.int64)))
                results.append(flat.reshape(info.shape))
    # a kernel and the copy of its result alternate
    sections = [found.get(1 + 2 * index, Section()) for index in range(len(kernels))]
    records = [call.record for call in layout.calls[::2]]
    return estimate_sections(sections, records, core_of(own), own.triple), results


@dataclass
class Layers:
    """A growing program of kernels; without operands, all tensors are in the arena.

    With operands, inputs of kernels are constants, like the weights of networks. Each result is
    copied from the arena to an output, because kernels treat a caller's memory differently.
    """

    functions: dict[str, PrimFunc] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    constants: dict[int, Constant] = field(default_factory=dict)
    outputs: list[TensorInfo] = field(default_factory=list)
    constant_bytes: int = 0
    arena_bytes: int = 0

    def add(
        self,
        kernel: Kernel | GemmKernel,
        arrays: Sequence[Array] = (),
        omit: Collection[str] = (),
    ) -> None:
        """One more kernel, ``kernelN``; without the blocks that ``omit`` names."""
        symbol = f"kernel{len(self.functions)}"
        func = kernel.prim_func().with_attr("global_symbol", symbol)
        if omit:
            func = transformed(func, LeaveOutBlocks(omit))
        self.functions[symbol] = func
        name, flops = str(kernel.workload), kernel.workload.flops
        if isinstance(kernel, Kernel):
            record, algorithm = KernelCall(name, symbol, "conv2d", name, flops), kernel.algorithm
        else:
            record, algorithm = KernelCall(name, symbol, "matmul", "", flops), "gemm"
        if not arrays:
            self.calls.append(Call(record, self._in_arena(func), algorithm))
            return
        *read, result = arrays
        places = [self._constant(np.ascontiguousarray(array)) for array in read]
        # not shared: values that a kernel leaves unwritten must not be another one's result
        made = Operand(Place.ARENA, self.arena_bytes, result.nbytes)
        self.arena_bytes += _aligned(result.nbytes)
        self.calls.append(Call(record, (*places, made), algorithm))
        given = Operand(Place.OUTPUT, 0, result.nbytes, len(self.outputs))
        self.calls.append(Call(KernelCall("", "", "copy"), (made, given)))
        self.outputs.append(TensorInfo(f"output{len(self.outputs)}", result.shape, "float32"))

    def _in_arena(self, func: PrimFunc) -> tuple[Operand, ...]:
        places, end = [], 0
        for buffer in func.params:
            shape = [int(extent) for extent in buffer.shape]
            size = int(np.prod(shape, dtype=np.int64)) * np.dtype(str(buffer.dtype)).itemsize
            places.append(Operand(Place.ARENA, end, size))
            end += _aligned(size)
        self.arena_bytes = max(self.arena_bytes, end)
        return tuple(places)

    def _constant(self, array: Array) -> Operand:
        constant = self.constants.get(id(array))
        if constant is None:
            constant = self.constants[id(array)] = Constant(self.constant_bytes, array)
            self.constant_bytes += _aligned(array.nbytes)
        return Operand(Place.CONSTANT, constant.offset, array.nbytes)

    def compiled(self, machine: Machine) -> CompiledProgram:
        """Machine code of all of them."""
        from tvmconv.tvm_api.ir import IRModule

        program = Program(
            inputs=(),
            outputs=tuple(self.outputs),
            calls=tuple(self.calls),
            constants=tuple(self.constants.values()),
            constant_bytes=self.constant_bytes,
            arena_bytes=self.arena_bytes,
            arena_bound=self.arena_bytes,
        )
        objects = compile_objects(IRModule(self.functions), machine, program)
        workspace = max(objects.workspace.values(), default=0)
        program = replace(program, workspace_bytes=workspace)
        features = required_features(machine)
        facts = Facts("kernels", __version__, machine.name, features, machine.cores)
        return CompiledProgram(program, objects, facts, machine)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def written(code: CompiledProgram, folder: Path) -> Path:
    """A program as a shared object in a folder."""
    path = folder / "kernels.so"
    with path.open("wb") as file:
        code.file().write_to(file.fileno(), b"")
    return path
