"""nvcc: CUDA source to machine code of an architecture, with PTX for later ones."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tvmconv.compile.nvidia import find_program
from tvmconv.compile.resources import Resources, read_resources
from tvmconv.core.errors import ArtifactError
from tvmconv.core.fatbin import Part, lowered, parts_of
from tvmconv.machines.cuda import CudaMachine

_OPTIONS = ("-std=c++17", "-O3")
_SAYING = ("-Xptxas", "-v")
_RELEASE = re.compile(r"release (\d+)\.(\d+)")
# from this version it compresses by Zstandard by default, which drivers before 550 do not read
_OTHER_COMPRESSION = (12, 8)


class Refused(ArtifactError):
    """A compiler rejects the source; with its output."""


def find_nvcc() -> str:
    """The program; raises :class:`ArtifactError` if it is not installed."""
    path = find_program("nvcc")
    if path is None:
        raise ArtifactError(
            "cannot compile GPU kernels: found neither nvcc nor NVRTC. Install nvcc by pip install "
            "'tvmconv[cuda]' or the CUDA toolkit, or name one in the variable NVCC or NVRTC."
        )
    return path


@dataclass(frozen=True)
class Nvcc:
    """The compiler of the CUDA toolkit."""

    path: str

    @property
    def version(self) -> str:
        """Its own description."""
        return _version(self.path)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The compiler and its options, on which results depend besides the source."""
        return (self.path, self.version, *_OPTIONS, *self._compression)

    @property
    def _compression(self) -> tuple[str, ...]:
        found = _RELEASE.search(self.version)
        later = found and (int(found[1]), int(found[2])) >= _OTHER_COMPRESSION
        return ("--compress-mode=speed",) if later else ()

    def parts(self, source: Path, isa: str, with_ptx: bool) -> tuple[list[Part], str]:
        """Code for one architecture, and the log of the assembler; also ``ISA.cubin`` next to it.

        The assembler compiles the earliest version of PTX that it accepts, and so checks the PTX
        that drivers will translate. Intermediate files go to the folder of the source.
        """
        virtual = f"compute_{isa.removeprefix('sm_')}"
        ptx, fatbin = source.with_name(f"{isa}.ptx"), source.with_name(f"{isa}.fatbin")
        run_compiler([self.path, *_OPTIONS, f"-arch={virtual}", "-ptx", "-o", ptx, source])
        codes = f"{isa},{virtual}" if with_ptx else isa
        form = ("-gencode", f"arch={virtual},code=[{codes}]", "-fatbin", *self._compression)
        kept = ("-keep", "-keep-dir", str(source.parent), "-o", str(fatbin), str(ptx))
        command = (self.path, *_OPTIONS, *_SAYING, *form, *kept)
        said = _of_earliest(ptx, int(isa.removeprefix("sm_")), command)
        for cubin in source.parent.glob(f"{isa}.*.cubin"):
            cubin.rename(source.with_name(f"{isa}.cubin"))
        return parts_of(fatbin.read_bytes()), said


def _of_earliest(ptx: Path, architecture: int, command: Sequence[str]) -> str:
    """The log of the assembler; leaves PTX in the earliest version that it accepts."""
    text = ptx.read_bytes()
    earlier = lowered(text, architecture)
    if earlier != text:
        ptx.write_bytes(earlier)
        with suppress(Refused):
            return run_compiler(command)
        ptx.write_bytes(text)
    return run_compiler(command)


@lru_cache(maxsize=4)
def _version(nvcc: str) -> str:
    try:
        done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ArtifactError(f"cannot start {nvcc}: {error.strerror}") from error
    return done.stdout


def compile_cubin(source: str, machine: CudaMachine) -> tuple[bytes, dict[str, Resources]]:
    """Machine code of a source alone, for nvdisasm, and the resources of each kernel."""
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        written, result = Path(folder) / "kernels.cu", Path(folder) / "kernels.cubin"
        written.write_text(source)
        form = (*_OPTIONS, *_SAYING, f"-arch={machine.isa}", "-cubin")
        said = run_compiler([find_nvcc(), *form, "-o", result, written])
        return result.read_bytes(), read_resources(said)


def run_compiler(
    command: Sequence[str | Path], environment: Mapping[str, str] | None = None
) -> str:
    """The log of a compiler; raises :class:`Refused` if it fails."""
    arguments = [str(each) for each in command]
    try:
        done = subprocess.run(
            arguments,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            start_new_session=True,  # Ctrl-C is the build's own affair
        )
    except OSError as error:
        raise ArtifactError(f"cannot start {arguments[0]}: {error.strerror}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        # warnings of long lines surround the errors
        faults = re.findall(r"^.*\berror\b.*(?:\n.*){0,2}", said, re.MULTILINE)
        raise Refused("\n".join(faults or [said])[:2000])
    return done.stderr
