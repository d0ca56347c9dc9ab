"""A compiled model: its parts, and the libraries that are linked from them; without TVM."""

from __future__ import annotations

import shutil
from pathlib import Path

from tvmconv.compile.c_text import identifier
from tvmconv.compile.gpu import write_fatbins
from tvmconv.compile.header import ModelShapes, model_header
from tvmconv.compile.link import constants_source, link_model, write_constants, write_objects
from tvmconv.compile.parts import Objects
from tvmconv.compile.source import Facts, program_source
from tvmconv.compile.toolchain import SOURCES, Toolchain, libraries, usual_driver
from tvmconv.compile.weights import IN_MEMORY, content, digest, gathered
from tvmconv.machines.device import Device
from tvmconv.program.program import Program
from tvmconv.runtime import forks
from tvmconv.runtime.binding import Code
from tvmconv.runtime.library import Library, Linked
from tvmconv.runtime.weights import Bytes


class CompiledProgram:
    """A model that was compiled in this process: its parts, and the libraries linked from them.

    Calls in this process use a library that finds its constants in memory, because linking half a
    gigabyte takes as long as compiling. Saving links another library. ``weights`` are the constants
    as :attr:`weights` has them, if they are gathered already.
    """

    def __init__(
        self,
        program: Program,
        objects: Objects,
        facts: Facts,
        machine: Device,
        cc: str = "",
        weights: Bytes | None = None,
    ) -> None:
        self.program = program
        self.objects = objects
        self.facts = facts
        self.machine = machine
        self._cc = cc
        self._lock = forks.Lock()
        self._weights = weights
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
