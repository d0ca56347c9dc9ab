"""Machine code of a compiled executable, linked with or without its constants."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tvmconv.core.errors import ArtifactError
from tvmconv.runtime import forks
from tvmconv.runtime.library import Library
from tvmconv.runtime.packing import pack_executable

_COMPILERS = ("c++", "g++", "gcc", "clang++", "clang", "cc")


class BuiltLibrary:
    """The library of a model that was compiled in this process.

    Calls use the compiler's own constants and a shared object of the kernels alone; the
    constants are packed and linked when the model is first saved, which for a network of
    half a gigabyte takes as long as compiling it.

    Parameters
    ----------
    executable
        What ``tvm.relax.build`` returned. Machine code is generated here, once.
    """

    def __init__(self, executable: Any) -> None:
        self._root = executable.mod
        # a model without kernels (its output is an input, say) brings an empty source module
        self._imports = [module for module in self._root.imports if module.kind == "llvm"]
        self._objects = [_object_code(module) for module in self._imports]
        self._lock = forks.Lock()
        self._kernels: Any = None
        self._file: Library | None = None

    def module(self) -> Any:
        """The TVM module; kernels are linked on first use.

        Without a linker on the system LLVM compiles them in memory, a second time.
        """
        with self._lock:
            if self._kernels is None and self._objects and find_driver() is not None:
                self._kernels = self._link().module()
                self._import([self._kernels])
            return self._root

    def file(self) -> Library:
        """The complete shared object, constants included.

        Raises
        ------
        ArtifactError
            If no compiler driver is found to link with, or linking fails.
        """
        with self._lock:
            if self._file is None:
                try:
                    self._import(self._imports)
                    self._file = self._link(self._root)
                finally:
                    if self._kernels is not None:
                        self._import([self._kernels])
            return self._file

    def _import(self, modules: Sequence[Any]) -> None:
        self._root.clear_imports()
        for module in modules:
            self._root.import_module(module)

    def _link(self, constants_of: Any = None) -> Library:
        try:
            return self._link_in_temporary_folder(constants_of)
        except OSError as error:
            raise ArtifactError(
                f"cannot link the compiled model in {tempfile.gettempdir()}: {error.strerror}; "
                "make room there, or name another folder in the variable TMPDIR"
            ) from error

    def _link_in_temporary_folder(self, constants_of: Any) -> Library:
        with tempfile.TemporaryDirectory(prefix="tvmconv-") as name:
            folder = Path(name)
            sources = []
            for index, code in enumerate(self._objects):
                sources.append(folder / f"kernels{index}.o")
                sources[-1].write_bytes(code)
            if constants_of is not None:
                sources.append(_pack_constants(constants_of, folder))
            output = folder / "model.so"
            _run_linker(output, sources)
            # the file loses its name with the folder and lives by its descriptor
            return Library.open(output)


def find_driver() -> str | None:
    """The compiler driver that links: ``CXX``, ``CC``, or the first of the usual names."""
    named = os.environ.get("CXX") or os.environ.get("CC")
    return named or next((name for name in _COMPILERS if shutil.which(name)), None)


def _object_code(module: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        file = Path(folder) / "kernels.o"
        module.write_to_file(str(file), "o")
        return file.read_bytes()


def _pack_constants(module: Any, folder: Path) -> Path:
    """Write bytecode and constants for the assembler to include."""
    from tvm import get_global_func

    blob = folder / "constants.bin"
    with blob.open("wb") as file:
        for piece in pack_executable(module):
            piece.tofile(file)
    symbol = get_global_func("runtime.ModuleImportsBlobName")()
    source = blob.with_suffix(".s")
    # the large-data section lets code and its own constants stay within 2 GB of each other
    source.write_text(
        f'.section .lrodata,"al",@progbits\n.balign 64\n.globl {symbol}\n{symbol}:\n'
        f'.incbin "{blob}"\n.size {symbol}, .-{symbol}\n.section .note.GNU-stack,"",@progbits\n'
    )
    return source


def _run_linker(output: Path, sources: Sequence[Path]) -> None:
    driver = find_driver()
    if driver is None:
        raise ArtifactError(
            "linking the compiled model needs a C++ compiler and binutils, none was found; "
            "install g++ (Debian: apt install g++) or name one in the variable CXX"
        )
    files = [str(source) for source in sources]
    command = [*driver.split(), "-shared", "-fPIC", "-o", str(output), *files, "-lm"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ArtifactError(f"cannot start the linker {driver!r}: {error.strerror}") from error
    if result.returncode:
        raise ArtifactError(f"linking with {driver!r} failed:\n{result.stderr.strip()[-2000:]}")
