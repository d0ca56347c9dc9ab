"""From the lowered graph to a shared object without TVM."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from tvmconv.compile.c_text import identifier
from tvmconv.compile.gpu import compile_gpu, write_fatbins
from tvmconv.compile.header import ModelShapes, model_header
from tvmconv.compile.link import constants_source, link_model, write_constants, write_objects
from tvmconv.compile.objects import Objects, compile_objects
from tvmconv.compile.source import Facts, program_source
from tvmconv.compile.toolchain import SOURCES, Toolchain, libraries, usual_driver
from tvmconv.compile.weights import IN_MEMORY, content, digest, gathered
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
from tvmconv.runtime import forks
from tvmconv.runtime.binding import Code
from tvmconv.runtime.library import Library, Linked
from tvmconv.runtime.weights import Bytes
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


class CompiledProgram:
    """A model that was compiled in this process: its parts, and the libraries linked from them.

    Calls in this process use a library that finds its constants in memory, because linking half a
    gigabyte takes as long as compiling. Saving links another library.
    """

    def __init__(
        self, program: Program, objects: Objects, facts: Facts, machine: Device, cc: str = ""
    ) -> None:
        self.program = program
        self.objects = objects
        self.facts = facts
        self.machine = machine
        self._cc = cc
        self._lock = forks.Lock()
        self._weights: Bytes | None = None
        self._library: Library | None = None
        self._file: Library | None = None

    @property
    def weights(self) -> Bytes:
        """The constants of :meth:`library`, gathered on first use; the program's become views."""
        with self._lock:
            if self._weights is None:
                self.program, self._weights = gathered(self.program)
            return self._weights

    def code(self) -> Code:
        """The code for calls in this process."""
        return self.library().code()

    def library(self) -> Library:
        """The shared object for calls in this process, without constants; linked once."""
        with self._lock:
            if self._library is None:
                self._library = self._linked(IN_MEMORY.hex())
            return self._library

    def file(self) -> Library:
        """The complete shared object, constants included; linked once."""
        with self._lock:
            if self._file is None:
                self._file = self._linked(None)
            return self._file

    def linked(self, separate: bool | None = None) -> Linked:
        """The parts to save: the constants in the library or in a separate file of weights."""
        if not separate:
            return Linked(self.file())
        sha256 = digest(self.program)
        with self._lock:
            library = self._linked(sha256.hex())
        return Linked(library, content(self.program, sha256), sha256.hex())

    def header(self) -> str:
        """The model's own header, which includes ``tvmconv.h``."""
        shapes = [
            ModelShapes(
                program.inputs,
                program.outputs,
                layers=sum(1 for _ in program.all_calls()),
                arena_bytes=program.arena_bytes,
            )
            for program in self.program.programs
        ]
        return model_header(self.facts.name, shapes, weight_bytes=self.program.constant_bytes)

    def keep(self, folder: Path) -> None:
        """Write the parts of the complete shared object and a script that links them."""
        folder.mkdir(parents=True, exist_ok=True)
        own = identifier(self.facts.name)
        for source in SOURCES.iterdir():
            if source.suffix in (".c", ".h", ".map"):
                shutil.copy(source, folder / source.name)
        (folder / "model.c").write_text(
            program_source(self.program, self.facts, gpu=self.objects.gpu)
        )
        (folder / f"{own}.h").write_text(self.header())
        kernels = write_objects(self.objects, folder / "kernels")
        parts = ["model.c", "runtime.c"]
        if self.objects.gpu:
            parts = ["-DTVMCONV_CUDA=1", *parts, "gpu.s"]
            (folder / "gpu.s").write_text(write_fatbins(self.objects.gpu, folder / "gpu"))
            for index, text in enumerate(self.objects.gpu.sources):
                (folder / f"gpu/kernels_{index}.cu").write_text(text)
        if self.program.constant_bytes:
            parts.append("constants.s")
            write_constants(self.program, folder / "constants.bin")
            size = self.program.constant_bytes
            (folder / "constants.s").write_text(constants_source("constants.bin", size))
        compiler = usual_driver(self.machine.triple)
        (folder / "build.sh").write_text(
            "#!/bin/sh\n# Links the model from its parts; run in this folder.\n"
            f"${{CC:-{compiler}}} -O2 -fPIC -fvisibility=hidden "
            "-shared -Wl,--gc-sections -Wl,--version-script=exports.map -o model.so \\\n"
            f"    {' '.join(parts)} {'kernels/*.o ' if kernels else ''}"
            f"{' '.join(libraries(self.machine.triple))}\n"
        )

    def _linked(self, weights_sha256: str | None) -> Library:
        return link_model(
            self.program,
            self.objects,
            self.facts,
            Toolchain.find(self._cc, self.machine.triple),
            weights_sha256=weights_sha256,
            triple=self.machine.triple,
        )
