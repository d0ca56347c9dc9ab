"""nvcc: CUDA source to machine code of an architecture, with PTX for later ones."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path

from tvmconv.compile.nvidia import find_program
from tvmconv.compile.sass import main_loops
from tvmconv.core.errors import ArtifactError
from tvmconv.core.launch import Launch
from tvmconv.machines.cuda import CudaMachine
from tvmconv.machines.host import host_cores

# names a folder where what nvcc made is kept, and taken from instead of compiling it again
KEPT = "TVMCONV_NVCC_CACHE"
_KERNEL = re.compile(
    r"Function properties for (?P<name>\w+)\n\s*(?P<stack>\d+) bytes stack frame, "
    r"(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
    r".*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)"
)
_SHARED = re.compile(r"(\d+) bytes smem")


@dataclass(frozen=True)
class Resources:
    """What a kernel takes of a multiprocessor, as ptxas says.

    Parameters
    ----------
    registers
        Of one thread.
    shared_bytes
        Of a block.
    spill_bytes
        Registers that one thread stores and loads, in bytes.
    multiply_add_share
        Of the main loop's instructions, as nvdisasm reads the first architecture's; 0 where there
        is no such loop, or no nvdisasm.
    """

    registers: int
    shared_bytes: int
    spill_bytes: int
    multiply_add_share: float = 0.0

    def of(self, launch: Launch) -> Launch:
        """A launch of the kernel with these."""
        return replace(
            launch,
            registers=self.registers,
            shared_bytes=self.shared_bytes,
            spill_bytes=self.spill_bytes,
            multiply_add_share=self.multiply_add_share,
        )


def find_nvcc() -> str:
    """The program, see :func:`find_program`.

    Raises
    ------
    ArtifactError
        If there is none.
    """
    path = find_program("nvcc")
    if path is None:
        raise ArtifactError(
            "compiling kernels for a GPU needs NVIDIA's nvcc, none was found; install it with "
            "pip install 'tvmconv[cuda]' or the CUDA toolkit, or name one in the variable NVCC"
        )
    return path


def compile_fatbin(source: str, machine: CudaMachine) -> tuple[bytes, dict[str, Resources]]:
    """Machine code for a GPU's architectures, and PTX for those after the last, in one file.

    Arithmetic is IEEE's: no option for faster and less exact functions is given.

    Parameters
    ----------
    source
        CUDA C++.
    machine
        The GPU.

    Returns
    -------
    tuple
        The fatbin, and what each kernel takes; of several architectures the most. With the
        share of multiply-adds in main loops, if there is an nvdisasm.

    Raises
    ------
    ArtifactError
        If there is no nvcc, or it refuses the source.
    """
    options = []
    for isa in machine.architectures:
        number = isa.removeprefix("sm_")
        ptx = f",compute_{number}" if isa == machine.architectures[-1] else ""
        options += ["-gencode", f"arch=compute_{number},code=[{isa}{ptx}]"]
    return _compiled(source, machine, [*options, "-fatbin"], loops=True)


def compile_cubin(source: str, machine: CudaMachine) -> tuple[bytes, dict[str, Resources]]:
    """As :func:`compile_fatbin`, the machine code alone, which nvdisasm reads."""
    return _compiled(source, machine, [f"-arch={machine.isa}", "-cubin"])


def _compiled(
    source: str, machine: CudaMachine, form: Sequence[str], loops: bool = False
) -> tuple[bytes, dict[str, Resources]]:
    """What nvcc makes of a source, with the options that say of which form."""
    nvcc = find_nvcc()
    command = [nvcc, "-std=c++17", "-O3", "-Xptxas", "-v", *form]
    kept = _kept(source, command)
    if kept and kept.is_file():
        head, _, content = kept.read_bytes().partition(b"\n")
        return content, {name: Resources(**each) for name, each in json.loads(head).items()}
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        written, result = Path(folder) / "kernels.cu", Path(folder) / "kernels"
        written.write_text(source)
        # of a fatbin, the machine code of each architecture as a file of its own
        separate = ["-keep", "-keep-dir", folder] if loops else []
        try:
            done = subprocess.run(
                [*command, *separate, "-o", str(result), str(written)],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                start_new_session=True,  # Ctrl-C is the build's own affair
            )
        except OSError as error:
            raise ArtifactError(f"cannot start {nvcc}: {error.strerror}") from error
        if done.returncode:
            said = (done.stderr or done.stdout).strip()
            # warnings of long lines come before and behind
            faults = re.findall(r"^.*\berror\b.*(?:\n.*){0,2}", said, re.MULTILINE)
            said = "\n".join(faults or [said])[:2000]
            raise ArtifactError(f"{nvcc} does not compile kernels for {machine.name}:\n{said}")
        content = result.read_bytes()
        resources = _with_shares(read_resources(done.stderr), Path(folder), machine, loops)
    if kept:
        _keep(kept, content, resources)
    return content, resources


def _kept(source: str, command: Sequence[str]) -> Path | None:
    """Where the result is kept; None where the user names no folder."""
    folder = os.environ.get(KEPT)
    if not folder:
        return None
    read = str(find_program("nvdisasm") is not None)
    said = "\n".join([*_version(command[0]), read, *command[1:], source])
    return Path(folder) / f"{hashlib.sha256(said.encode()).hexdigest()[:32]}.nvcc"


@lru_cache(maxsize=4)
def _version(nvcc: str) -> tuple[str, ...]:
    """The program, and what it says of itself."""
    done = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False)
    return (nvcc, done.stdout)


def _keep(path: Path, content: bytes, resources: Mapping[str, Resources]) -> None:
    """At once, as others may write the same; a folder that cannot be written keeps nothing."""
    head = json.dumps({name: asdict(each) for name, each in resources.items()})
    written = path.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(head.encode() + b"\n" + content)
        written.rename(path)


def _with_shares(
    resources: dict[str, Resources], folder: Path, machine: CudaMachine, loops: bool
) -> dict[str, Resources]:
    """With what kept machine code tells of main loops; without where nothing reads it."""
    kept = sorted(folder.glob(f"*{machine.isa.removeprefix('sm_')}.cubin")) if loops else []
    try:
        found = main_loops(kept[0].read_bytes()) if kept else {}
    except ArtifactError:
        found = {}
    return {
        name: replace(each, multiply_add_share=found[name].share) if name in found else each
        for name, each in resources.items()
    }


def compile_fatbins(
    sources: Sequence[str], machine: CudaMachine
) -> list[tuple[bytes, dict[str, Resources]]]:
    """As :func:`compile_fatbin` for several, side by side on the CPUs of this process."""
    with ThreadPoolExecutor(host_cores(), "tvmconv-nvcc") as pool:
        return list(pool.map(lambda source: compile_fatbin(source, machine), sources))


def read_resources(said: str) -> dict[str, Resources]:
    """What ptxas says with ``-v``, by the kernel's name; the most of several architectures."""
    found: dict[str, Resources] = {}
    for kernel in _KERNEL.finditer(said):
        shared = _SHARED.search(kernel["rest"])
        spilled = int(kernel["stores"]) + int(kernel["loads"])
        other = found.get(kernel["name"], Resources(0, 0, 0))
        found[kernel["name"]] = Resources(
            max(int(kernel["registers"]), other.registers),
            max(int(shared[1]) if shared else 0, other.shared_bytes),
            max(spilled, other.spill_bytes),
        )
    return found
