"""Saved models for other CPUs, called under qemu's user mode to verify results, not speed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from tvmconv.compile.toolchain import SOURCES, Toolchain
from tvmconv.core.errors import ArtifactError
from tvmconv.core.tensor import Array, TensorInfo


def run_emulated(
    path: Path,
    triple: str,
    inputs: Sequence[TensorInfo],
    outputs: Sequence[TensorInfo],
    values: Mapping[str, Array],
    options: Sequence[str] = (),
    caller: Path = SOURCES / "call.c",
) -> list[Array]:
    """One call of a saved model by a C program under qemu.

    ``path`` is the shared object for the system ``triple``. ``options`` are qemu's, such as
    ``-cpu cortex-a72``. ``caller`` is the source of the program, which is started with paths of the
    model, inputs and outputs.
    """
    qemu = emulator(triple)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as name:
        program, given, result = (Path(name, part) for part in ("call", "inputs", "outputs"))
        program.write_bytes(
            _compiled(Toolchain.find("", triple), caller, caller.stat().st_mtime_ns)
        )
        program.chmod(0o700)
        with given.open("wb") as file:
            for info in inputs:
                np.ascontiguousarray(values[info.name], info.dtype).reshape(info.shape).tofile(file)
        command = [*qemu, *options, program, path.resolve(), given, result]
        done = subprocess.run(
            list(map(str, command)),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            said = done.stderr.strip()[-2000:] or f"exit status {done.returncode}"
            raise ArtifactError(f"{path} under {qemu[0]}: {said}")
        found = []
        with result.open("rb") as file:
            for info in outputs:
                count = int(np.prod(info.shape, dtype=np.int64))
                found.append(np.fromfile(file, info.dtype, count).reshape(info.shape))
        return found


def emulator(triple: str) -> list[str]:
    """The program that emulates an architecture, with the path of the system's libraries."""
    architecture = triple.partition("-")[0]
    names = (f"qemu-{architecture}", f"qemu-{architecture}-static")
    name = next((name for name in names if shutil.which(name)), None)
    if name is None:
        raise ArtifactError(
            f"emulating {architecture} requires {names[0]}, which is not installed. Install it "
            "(Debian: apt install qemu-user)."
        )
    # the libc of Debian's cross compilers; the variable has priority
    folder = Path("/usr", f"{architecture}-linux-gnu")
    if "QEMU_LD_PREFIX" in os.environ or "musl" in triple or not folder.is_dir():
        return [name]
    return [name, "-L", str(folder)]


@lru_cache(maxsize=4)
def _compiled(toolchain: Toolchain, caller: Path, _modified: int) -> bytes:
    """The program of a source file, compiled once in a process."""
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        program = Path(folder, "call")
        toolchain.program(caller, program)
        return program.read_bytes()
