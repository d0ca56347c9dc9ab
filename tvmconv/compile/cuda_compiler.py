"""CUDA source to fatbins, by nvcc or, without it, by NVRTC."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from tvmconv.compile.nvcc import Nvcc, Refused, find_nvcc
from tvmconv.compile.nvidia import find_program
from tvmconv.compile.nvrtc import Nvrtc, find_nvrtc
from tvmconv.compile.resources import Resources, read_resources
from tvmconv.compile.sass import main_loops
from tvmconv.core.errors import ArtifactError
from tvmconv.core.fatbin import Part, fatbin_of
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.host import host_cores

# names a folder that caches the results of compilers
KEPT = "TVMCONV_NVCC_CACHE"
# nvcc, or gcc for it, says so without a compiler for C++
_HOST_COMPILER = re.compile(r"\bhost compiler\b|\bcc1plus\b")
_NO_HOST_COMPILER = (
    "\nnvcc requires a compiler for C++. Install g++, or use NVRTC, which requires none "
    "(pip install nvidia-cuda-nvrtc, and its libnvrtc.so.13 in the variable NVRTC)."
)
# version of the cached files
_FORM = "2"


def find_compiler() -> Nvcc | Nvrtc:
    """NVRTC if the variable of its name asks for it, else nvcc, else NVRTC if it is installed."""
    nvrtc = find_nvrtc()
    if nvrtc and (os.environ.get("NVRTC") or find_program("nvcc") is None):
        return Nvrtc(nvrtc)
    return Nvcc(find_nvcc())


def compile_fatbin(source: str, machine: CudaMachine) -> tuple[bytes, dict[str, Resources]]:
    """Machine code of CUDA C++ for a GPU's architectures, and PTX for later ones, in one file.

    Arithmetic is IEEE's: no option for faster and less exact functions is given. Raises
    ``ArtifactError`` if no compiler is installed, or it rejects the source. Each kernel's resources
    are the maximum over the architectures, with the share of FMA in main loops if nvdisasm is
    installed.
    """
    compiler = find_compiler()
    kept = _kept(source, compiler, machine)
    if kept and kept.is_file():
        head, _, content = kept.read_bytes().partition(b"\n")
        return content, {name: Resources(**each) for name, each in json.loads(head).items()}
    parts, said = list[Part](), ""
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        written = Path(folder) / "kernels.cu"
        written.write_text(source)
        for isa in machine.architectures:
            try:
                made, log = compiler.parts(written, isa, isa == machine.architectures[-1])
            except Refused as error:
                raise ArtifactError(
                    f"{compiler.path} does not compile kernels for {isa}:\n{error}"
                    + _NO_HOST_COMPILER * bool(_HOST_COMPILER.search(str(error)))
                ) from None
            parts += made
            said += log
        resources = _with_shares(read_resources(said), Path(folder) / f"{machine.isa}.cubin")
    content = fatbin_of(parts)
    if kept:
        _keep(kept, content, resources)
    return content, resources


def compile_fatbins(
    sources: Sequence[str], machine: CudaMachine
) -> list[tuple[bytes, dict[str, Resources]]]:
    """As :func:`compile_fatbin` for several sources, in parallel on the CPUs of this process."""
    with ThreadPoolExecutor(host_cores(), "tvmconv-nvcc") as pool:
        return list(pool.map(lambda source: compile_fatbin(source, machine), sources))


def _kept(source: str, compiler: Nvcc | Nvrtc, machine: CudaMachine) -> Path | None:
    """The cached file of a result; None if the user names no folder."""
    folder = os.environ.get(KEPT)
    if not folder:
        return None
    read = str(find_program("nvdisasm") is not None)
    said = "\n".join([_FORM, *compiler.inputs, read, machine.isa, *machine.architectures, source])
    return Path(folder) / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.nvcc"


def _keep(path: Path, content: bytes, resources: Mapping[str, Resources]) -> None:
    """Write by renaming, as other processes may write the same; ignores a read-only folder."""
    head = json.dumps({name: asdict(each) for name, each in resources.items()})
    written = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(head.encode() + b"\n" + content)
        written.rename(path)


def _with_shares(resources: dict[str, Resources], cubin: Path) -> dict[str, Resources]:
    """Resources with the share of FMA in main loops, if nvdisasm can read the machine code."""
    try:
        found = main_loops(cubin.read_bytes()) if cubin.is_file() else {}
    except ArtifactError:
        found = {}
    return {
        name: replace(each, multiply_add_share=found[name].share) if name in found else each
        for name, each in resources.items()
    }
