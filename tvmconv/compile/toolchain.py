"""The C compiler on this system that compiles and links models, for it or for another one."""

from __future__ import annotations

import os
import platform
import re
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
from tvmconv.machines.architectures import architecture_of
from tvmconv.runtime.library import C_SOURCES

SOURCES = C_SOURCES
_COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")
# a driver for C++ would take C for its own language
_C99 = ("-x", "c", "-std=c99", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{SOURCES}")
_GNU99 = (*_C99, "-std=gnu99")
_ASSEMBLER = ("-x", "assembler")
_COMMAND = "give a C compiler with its options, such as 'clang -fno-plt'"
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
# Android's libc holds the threads, and has no library of that name
_ANDROID_LIBRARIES = ("-Wl,--as-needed", "-lm", "-ldl")


@dataclass(frozen=True)
class Toolchain:
    """A compiler driver: ``cc``, ``clang --target=...``, ``aarch64-linux-gnu-gcc``.

    Parameters
    ----------
    driver
        The program and the options that come first in every command.
    triple
        The system that it makes code for; of another one than this if it is given.
    """

    driver: tuple[str, ...]
    triple: str = ""

    @classmethod
    def find(cls, named: str = "", triple: str = "") -> Toolchain:
        """The named driver, with options as in a shell; that of ``CC``, ``CXX``; a usual one.

        Parameters
        ----------
        named
            The driver: ``gcc``, ``clang --target=aarch64-linux-gnu``.
        triple
            LLVM's name of the system that code is for; by default this one. For another one,
            ``CC`` and ``CXX`` count if they are for it, and the usual names are
            ``<triple>-gcc`` and ``clang --target=<triple>``.

        Raises
        ------
        ArtifactError
            If there is none, or the named one is for another architecture.
        ConfigError
            If the named one is none.
        """
        if _is_foreign(triple):
            return cls(_cross_driver(named, _short(triple)), _short(triple))
        if named:
            return cls(_words(named))
        text = os.environ.get("CC") or os.environ.get("CXX")
        text = text or next((name for name in _COMPILERS if shutil.which(name)), "")
        if not text:
            raise ArtifactError(
                "cannot link the compiled model: no C compiler was found. Install gcc with "
                "binutils (Debian: apt install gcc libc6-dev) or name one in the variable CC"
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
        self._run([*_LINKED, "-o", str(output), *files, *libraries(self.triple)])

    def runtime_object(self, on_gpu: bool = False) -> bytes:
        """Object code of ``runtime.c``, the same for every model of a kind; compiled once."""
        return _runtime_object(self, on_gpu)

    def share(self, output: str, objects: Sequence[str]) -> None:
        """Make a shared object whose missing symbols are those of the process that loads it."""
        self._run(["-shared", "-o", output, *objects])

    def program(self, source: Path, output: Path) -> None:
        """Compile a C file into a program that may open models."""
        self._run([*_C99, str(source), "-o", str(output), "-Wl,--as-needed", "-ldl"])

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


def libraries(triple: str) -> tuple[str, ...]:
    """Options of the linker for the libraries of the system that models need."""
    return _ANDROID_LIBRARIES if "android" in triple else _LIBRARIES


def usual_driver(triple: str) -> str:
    """The name under which a compiler for a system is most often installed."""
    return _cross_compilers(_short(triple))[0] if _is_foreign(triple) else "cc"


def _short(triple: str) -> str:
    """A triple without the vendor, as in names of programs: ``aarch64-linux-musl``."""
    architecture, _, rest = triple.partition("-")
    return f"{architecture}-{re.sub('^(unknown|none|pc)-', '', rest)}"


def _is_foreign(triple: str) -> bool:
    """Whether this system's own compiler makes no code for a triple."""
    if not triple:
        return False
    architecture, _, system = _short(triple).partition("-")
    # what has no name of its own means the libc that this system has
    return architecture != platform.machine() or system not in ("", "linux", "linux-gnu")


def _cross_compilers(triple: str) -> tuple[str, ...]:
    kinds = ("clang",) if "android" in triple else ("gcc", "cc", "clang")
    return tuple(f"{triple}-{kind}" for kind in kinds)


def _cross_driver(named: str, triple: str) -> tuple[str, ...]:
    """The compiler for another system than this."""
    for text in (named, os.environ.get("CC"), os.environ.get("CXX")):
        if not text:
            continue
        driver = _words(text)
        makes = _makes_code_for(driver)
        if _fits(makes, triple):
            return driver
        if text == named:
            raise ArtifactError(
                f"the C compiler {named!r} makes code for {makes}, and the model is for {triple}; "
                f"name one such as {usual_driver(triple)} or 'clang --target={triple}'"
            )
    for name in _cross_compilers(triple):
        if shutil.which(name):
            return (name,)
    # without a linker for the other architecture clang would call this system's
    if shutil.which("clang") and "android" not in triple:
        if shutil.which(f"{triple}-ld"):
            return ("clang", f"--target={triple}")
        if shutil.which("ld.lld"):
            return ("clang", f"--target={triple}", "-fuse-ld=lld")
    usual, known = usual_driver(triple), architecture_of(triple)
    package = known.packages.get(triple) if known else None
    debian = f"install {usual} (Debian: apt install {package}) or " if package else ""
    raise ArtifactError(
        f"linking a model for {triple} needs a C compiler and libc for it, none was found; "
        f"{debian}name one by --cc or in the variable CC, such as {usual} with its folder, or "
        f"'clang --target={triple} --sysroot=DIR'"
    )


@lru_cache(maxsize=16)
def _makes_code_for(driver: tuple[str, ...]) -> str:
    """The triple of a driver, as it says; empty if it does not."""
    try:
        done = subprocess.run(
            [*driver, "-dumpmachine"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def _fits(makes: str, triple: str) -> bool:
    """Whether a driver may be for a triple; one that does not say what it is for may."""
    if not makes:
        return True
    made, wanted = _short(makes), _short(triple)
    # libc may be chosen by options that the name does not show
    return made.partition("-")[0] == wanted.partition("-")[0]


def _words(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"cc={shown(text)} is not a command: {error}; {_COMMAND}") from None
    if not words:
        raise ConfigError(f"cc={shown(text)} is not a command; {_COMMAND}")
    return words


@lru_cache(maxsize=16)
def _runtime_object(toolchain: Toolchain, on_gpu: bool) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        output = Path(folder) / "runtime.o"
        source = SOURCES / "runtime.c"
        options = ["-DTVMCONV_CUDA=1"] if on_gpu else []
        toolchain._run([*_GNU99, *options, "-c", str(source), "-o", str(output)])
        return output.read_bytes()
