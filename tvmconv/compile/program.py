"""A compiled model: its parts, and the libraries that are linked from them; without TVM."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvmconv.compile.c_text import identifier
from tvmconv.compile.gpu import write_fatbins
from tvmconv.compile.header import ModelShapes, model_header
from tvmconv.compile.link import constants_source, link_model, write_constants, write_objects
from tvmconv.compile.machine_code import Objects
from tvmconv.compile.source import Facts, program_source
from tvmconv.compile.toolchain import SOURCES, Toolchain, libraries, usual_driver
from tvmconv.compile.weights import IN_MEMORY, content, digest, gathered
from tvmconv.machines.device import Device
from tvmconv.program.program import Program
from tvmconv.runtime import forks
from tvmconv.runtime.binding import Code
from tvmconv.runtime.library import Library, Linked
from tvmconv.runtime.weights import Bytes


@dataclass(frozen=True)
class TargetCode:
    """The code for one target of a model: its programs, whose constants the model has."""

    program: Program
    objects: Objects
    facts: Facts
    machine: Device


class CompiledProgram:
    """A model that was compiled in this process: its parts, and the libraries linked from them.

    Calls in this process use a library that finds its constants in memory, because linking half a
    gigabyte takes as long as compiling. Saving links another library. ``weights`` are the constants
    as :attr:`weights` has them, if they are gathered already. ``others`` is the code for further
    targets, all of one architecture.
    """

    def __init__(
        self,
        program: Program,
        objects: Objects,
        facts: Facts,
        machine: Device,
        cc: str = "",
        weights: Bytes | None = None,
        others: Sequence[TargetCode] = (),
    ) -> None:
        self.program = program
        self.objects = objects
        self.facts = facts
        self.machine = machine
        self.others = tuple(others)
        self._cc = cc
        self._lock = forks.Lock()
        self._weights = weights
        self._library: Library | None = None
        self._file: Library | None = None

    @classmethod
    def joined(cls, codes: Sequence[CompiledProgram]) -> CompiledProgram:
        """The model of several targets, from programs that share constants."""
        first, *others = codes
        if not others:
            return first
        further = [
            TargetCode(replace(code.program, constants=()), code.objects, code.facts, code.machine)
            for code in others
        ]
        return cls(
            first.program, first.objects, first.facts, first.machine, first._cc, others=further
        )

    @property
    def targets(self) -> tuple[TargetCode, ...]:
        """The code for each target."""
        first = TargetCode(self.program, self.objects, self.facts, self.machine)
        return (first, *self.others)

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
        groups = zip(*(target.program.programs for target in self.targets), strict=True)
        shapes = [
            ModelShapes(
                programs[0].inputs,
                programs[0].outputs,
                layers=max(sum(1 for _ in program.all_calls()) for program in programs),
                arena_bytes=max(program.arena_bytes for program in programs),
            )
            for programs in groups
        ]
        return model_header(self.facts.name, shapes, weight_bytes=self.program.constant_bytes)

    def keep(self, folder: Path) -> None:
        """Write the parts of the complete shared object and a script that links them."""
        folder.mkdir(parents=True, exist_ok=True)
        own = identifier(self.facts.name)
        for source in SOURCES.iterdir():
            if source.suffix in (".c", ".h", ".map"):
                shutil.copy(source, folder / source.name)
        (folder / "model.c").write_text(self._source(None))
        (folder / f"{own}.h").write_text(self.header())
        kernels = write_objects(self._code(), folder / "kernels")
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

    def _source(self, weights_sha256: str | None) -> str:
        others = [(target.program, target.facts) for target in self.others]
        return program_source(self.program, self.facts, weights_sha256, self.objects.gpu, others)

    def _code(self) -> dict[str, bytes]:
        """The objects of all targets, whose symbols differ."""
        return {s: code for target in self.targets for s, code in target.objects.code.items()}

    def _linked(self, weights_sha256: str | None) -> Library:
        return link_model(
            self.program,
            replace(self.objects, code=self._code()),
            self._source(weights_sha256),
            Toolchain.find(self._cc, self.machine.triple),
            weights_sha256=weights_sha256,
            triple=self.machine.triple,
        )
