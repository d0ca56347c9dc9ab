"""The C compiler on this system that compiles and links models."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tvmconv.core.arguments import shown
from tvmconv.core.errors import ArtifactError, ConfigError
from tvmconv.runtime.library import C_SOURCES

SOURCES = C_SOURCES
_COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")
# a driver for C++ would take C for its own language
_C99 = ("-x", "c", "-std=c99", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{SOURCES}")
_GNU99 = (*_C99, "-std=gnu99")
_ASSEMBLER = ("-x", "assembler")
_LINKED = (
    "-shared",
    "-Wl,--no-undefined",
    "-Wl,--gc-sections",
    "-Wl,--strip-debug",
    "-Wl,--build-id=none",
    "-Wl,-z,relro,-z,now,-z,noexecstack",
    f"-Wl,--version-script={SOURCES / 'exports.map'}",
)
# parts of libc itself where it is recent
_LIBRARIES = ("-Wl,--as-needed", "-lm", "-lpthread", "-ldl")


@dataclass(frozen=True)
class Toolchain:
    """A compiler driver: ``cc``, ``clang --target=...``, ``aarch64-linux-gnu-gcc``.

    Parameters
    ----------
    driver
        The program and the options that come first in every command.
    """

    driver: tuple[str, ...]

    @classmethod
    def find(cls, named: str = "") -> Toolchain:
        """The named driver, with options as in a shell; that of ``CC``, ``CXX``; a usual one.

        Raises
        ------
        ArtifactError
            If there is none.
        ConfigError
            If the named one is none.
        """
        if named:
            return cls(_words(named))
        text = os.environ.get("CC") or os.environ.get("CXX")
        text = text or next((name for name in _COMPILERS if shutil.which(name)), "")
        if not text:
            raise ArtifactError(
                "linking the compiled model needs a C compiler and binutils, none was found; "
                "install gcc (Debian: apt install gcc libc6-dev) or name one in the variable CC"
            )
        return cls(_words(text))

    def link(
        self, output: Path, sources: Mapping[str, str], objects: Sequence[Path], runtime: bytes
    ) -> None:
        """Make a model's shared object.

        Parameters
        ----------
        output
            To be written, in an otherwise private folder.
        sources
            Text of C (``.c``) and assembler (``.s``) files, by name.
        objects
            The kernels.
        runtime
            See :meth:`runtime_object`.
        """
        folder = output.parent
        compiled = [folder / "runtime.o"]
        compiled[0].write_bytes(runtime)
        commands = []
        for name, text in sources.items():
            source = folder / name
            source.write_text(text)
            compiled.append(source.with_suffix(".o"))
            options = _C99 if source.suffix == ".c" else _ASSEMBLER
            commands.append([*options, "-c", str(source), "-o", str(compiled[-1])])
        self._run(*commands)
        files = [str(path) for path in (*compiled, *objects)]
        self._run([*_LINKED, "-o", str(output), *files, *_LIBRARIES])

    def runtime_object(self) -> bytes:
        """Object code of ``runtime.c``, which is the same for every model; compiled once."""
        return _runtime_object(self)

    def _run(self, *commands: Sequence[str]) -> None:
        """Run commands side by side."""
        environment = {**os.environ, "LC_ALL": "C"}
        started = []
        try:
            for options in commands:
                started.append(
                    subprocess.Popen(
                        [*self.driver, *options],
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.PIPE,
                        text=True,
                        errors="replace",
                        env=environment,
                        start_new_session=True,  # Ctrl-C is the build's own affair
                    )
                )
        except OSError as error:
            raise ArtifactError(
                f"cannot start the C compiler {self.driver[0]!r}: {error.strerror}"
            ) from error
        finally:
            said = [process.communicate()[1] for process in started]
        for process, text in zip(started, said, strict=True):
            if process.returncode:
                raise ArtifactError(
                    f"linking with {shlex.join(self.driver)!r} failed:\n{text.strip()[-2000:]}"
                )


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"cc={shown(text)} is no command: {error}") from None
    if not words:
        raise ConfigError(f"cc={shown(text)} is no command")
    return words


@lru_cache(maxsize=16)
def _runtime_object(toolchain: Toolchain) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        output = Path(folder) / "runtime.o"
        source = SOURCES / "runtime.c"
        toolchain._run([*_GNU99, "-c", str(source), "-o", str(output)])
        return output.read_bytes()
