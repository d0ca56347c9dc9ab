"""The C compiler that compiles and links models, for this system or for another."""

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

from tvmconv.cache import entries
from tvmconv.cache.identity import key_of
from tvmconv.core.arguments import shown
from tvmconv.core.errors import ArtifactError, ConfigError
from tvmconv.machines.architectures import architecture_of
from tvmconv.runtime.library import C_SOURCES

SOURCES = C_SOURCES
_COMPILERS = ("cc", "gcc", "clang", "c++", "g++", "clang++")
# a driver for C++ would compile C as C++
_C99 = ("-x", "c", "-std=c99", "-O2", "-fPIC", "-fvisibility=hidden", f"-I{SOURCES}")
_GNU99 = (*_C99, "-std=gnu99")
_ASSEMBLER = ("-x", "assembler")
_COMMAND = "Expected a C compiler with its options, such as 'clang -fno-plt'."
_LINKED = (
    "-shared",
    "-Wl,--no-undefined",
    "-Wl,--gc-sections",
    "-Wl,--strip-debug",
    "-Wl,--build-id=none",
    "-Wl,-z,relro,-z,now,-z,noexecstack",
    f"-Wl,--version-script={SOURCES / 'exports.map'}",
)
# a recent libc contains them
_LIBRARIES = ("-Wl,--as-needed", "-lm", "-lpthread", "-ldl")
# Android's libc contains the threads and lacks libpthread
_ANDROID_LIBRARIES = ("-Wl,--as-needed", "-lm", "-ldl")


@dataclass(frozen=True)
class Toolchain:
    """A compiler driver: ``cc``, ``clang --target=...``, ``aarch64-linux-gnu-gcc``.

    ``driver`` is the program with its first options; ``triple`` is empty for this system.
    """

    driver: tuple[str, ...]
    triple: str = ""

    @classmethod
    def find(cls, named: str = "", triple: str = "") -> Toolchain:
        """The named driver with options as in a shell; else from ``CC``, ``CXX``; else a usual one.

        Raises ``ArtifactError`` if no driver is installed, or the named one is for another
        architecture. Raises ``ConfigError`` if the name is not a command.

        ``named`` is a driver such as ``clang --target=aarch64-linux-gnu``. ``triple`` is LLVM's
        name of the target system, by default this system. For another system, ``CC`` and ``CXX``
        are used if they compile for it. The usual names are then ``<triple>-gcc`` and
        ``clang --target=<triple>``.
        """
        if _is_foreign(triple):
            return cls(_cross_driver(named, _short(triple)), _short(triple))
        if named:
            return cls(_split(named))
        text = os.environ.get("CC") or os.environ.get("CXX")
        text = text or next((name for name in _COMPILERS if shutil.which(name)), "")
        if not text:
            raise ArtifactError(
                "cannot link the compiled model: no C compiler was found. Install gcc with "
                "binutils (Debian: apt install gcc libc6-dev) or name one in the variable CC."
            )
        return cls(_split(text))

    @property
    def identity(self) -> list[str]:
        """Command and program file of this compiler, on which a cached result depends."""
        path = shutil.which(self.driver[0])
        status = Path(path).stat() if path else None
        file = f"{status.st_size} {status.st_mtime_ns}" if status else ""
        return [*self.driver, self.triple, file]

    def link(
        self, output: Path, sources: Mapping[str, str], objects: Sequence[Path], runtime: bytes
    ) -> None:
        """Make a model's shared object from C and assembler texts by file name, and from objects.

        Intermediate files are written to the folder of ``output``, which must be private.
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
        """Make a shared object whose missing symbols the loading process provides."""
        self._run(["-shared", "-o", output, *objects])

    def one_object(self, output: Path, sources: Sequence[Path]) -> None:
        """Make one relocatable object from files of C (GNU) and assembler."""
        parts = [source.with_suffix(f"{source.suffix}.o") for source in sources]
        commands = []
        for source, part in zip(sources, parts, strict=True):
            options = _GNU99 if source.suffix == ".c" else _ASSEMBLER
            commands.append([*options, "-c", str(source), "-o", str(part)])
        self._run(*commands)
        self._run(["-r", "-nostdlib", "-o", str(output), *map(str, parts)])

    def program(self, source: Path, output: Path) -> None:
        """Compile a C file into a program that may open models."""
        self._run([*_C99, str(source), "-o", str(output), "-Wl,--as-needed", "-ldl"])

    def _run(self, *commands: Sequence[str]) -> None:
        """Run commands in parallel."""
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
                f"cannot start the C compiler {self.driver[0]!r}: {error.strerror}. Install it, "
                "or name another one by --cc, in Python cc=."
            ) from error
        finally:
            said = [process.communicate()[1] for process in started]
        for process, text in zip(started, said, strict=True):
            if process.returncode:
                raise ArtifactError(
                    f"linking with {shlex.join(self.driver)!r} failed:\n{text.strip()[-2000:]}"
                )


def libraries(triple: str) -> tuple[str, ...]:
    """Options of the linker for the system's libraries."""
    return _ANDROID_LIBRARIES if "android" in triple else _LIBRARIES


def usual_driver(triple: str) -> str:
    """The usual name of a compiler for a system."""
    return _cross_compilers(_short(triple))[0] if _is_foreign(triple) else "cc"


def _short(triple: str) -> str:
    """A triple without the vendor, as in names of programs: ``aarch64-linux-musl``."""
    architecture, _, rest = triple.partition("-")
    return f"{architecture}-{re.sub('^(unknown|none|pc)-', '', rest)}"


def _is_foreign(triple: str) -> bool:
    """Whether a triple needs another compiler than this system's own."""
    if not triple:
        return False
    architecture, _, system = _short(triple).partition("-")
    # an unnamed libc is this system's own
    return architecture != platform.machine() or system not in ("", "linux", "linux-gnu")


def _cross_compilers(triple: str) -> tuple[str, ...]:
    kinds = ("clang",) if "android" in triple else ("gcc", "cc", "clang")
    return tuple(f"{triple}-{kind}" for kind in kinds)


def _cross_driver(named: str, triple: str) -> tuple[str, ...]:
    """The compiler for another system than this."""
    for text in (named, os.environ.get("CC"), os.environ.get("CXX")):
        if not text:
            continue
        driver = _split(text)
        makes = _makes_code_for(driver)
        if _fits(makes, triple):
            return driver
        if text == named:
            raise ArtifactError(
                f"the C compiler {named!r} makes code for {makes}, and the model is for {triple}. "
                f"Name one such as {usual_driver(triple)} or 'clang --target={triple}'."
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
    debian = f"Install {usual} (Debian: apt install {package}). " if package else ""
    raise ArtifactError(
        f"cannot link a model for {triple}: no C compiler for it was found. {debian}Name one by "
        f"--cc or in the variable CC, such as DIR/{usual} or "
        f"'clang --target={triple} --sysroot=DIR'."
    )


@lru_cache(maxsize=16)
def _makes_code_for(driver: tuple[str, ...]) -> str:
    """The triple that a driver reports; empty if it does not."""
    try:
        done = subprocess.run(
            [*driver, "-dumpmachine"], capture_output=True, text=True, errors="replace", check=False
        )
    except OSError:
        return ""
    return done.stdout.strip()


def _fits(makes: str, triple: str) -> bool:
    """Whether a driver may be for a triple; also if it reports none."""
    if not makes:
        return True
    made, wanted = _short(makes), _short(triple)
    # options may choose another libc than the name shows
    return made.partition("-")[0] == wanted.partition("-")[0]


def _split(text: str) -> tuple[str, ...]:
    try:
        parts = tuple(shlex.split(text))
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(f"cc={shown(text)} is not a command: {error}. {_COMMAND}") from None
    if not parts:
        raise ConfigError(f"cc={shown(text)} is not a command. {_COMMAND}")
    return parts


@lru_cache(maxsize=16)
def _runtime_object(toolchain: Toolchain, on_gpu: bool) -> bytes:
    options = ["-DTVMCONV_CUDA=1"] if on_gpu else []
    key = key_of(["runtime", toolchain.identity, options])
    if (kept := entries.load(entries.LIBRARY, key)) is not None:
        return kept.tobytes()
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        output = Path(folder) / "runtime.o"
        source = SOURCES / "runtime.c"
        toolchain._run([*_GNU99, *options, "-c", str(source), "-o", str(output)])
        made = output.read_bytes()
    entries.store(entries.LIBRARY, key, [made])
    return made
