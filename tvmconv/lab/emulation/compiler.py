"""Compiles the kernels of a CUDA source for the CPU.

Imports no NumPy: the emulated nvcc starts a process for each of its steps.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.emulation.translate import HEADER, translate

_COMPILERS = ("g++", "clang++", "c++")
# nvcc contracts multiply and add, too; the fortified longjmp refuses to leave a stack
_OPTIONS = ("-x", "c++", "-std=c++17", "-ffp-contract=fast", "-U_FORTIFY_SOURCE")
# for one or two launches, more optimization takes longer than it saves
_FEW_LAUNCHES, _MANY_LAUNCHES = "-Og", "-O2"
_SHARED = ("-shared", "-fPIC", "-w", f"-I{HEADER.parent}")


def compile_cuda(source: str, output: Path, *, many_launches: bool = False) -> None:
    """Make a shared object that executes the kernels of a source of TVM's generator on the CPU.

    It exports the functions at the end of ``c/cuda.h``. ``launch(name, grid, block, shared,
    arguments)`` takes the arguments of ``cuLaunchKernel`` and returns 0, or 1 with a sentence in
    ``emulation_message()``. Kernels may only touch memory named by ``emulation_remember(first,
    bytes)``. It has no thread safety: one launch at a time. For ``many_launches`` it compiles
    longer for faster kernels. Raises :class:`ArtifactError` if a C++ compiler is missing, or
    refuses the source.
    """
    driver = _compiler()
    text = translate(source).text
    level = _MANY_LAUNCHES if many_launches else _FEW_LAUNCHES
    machine = ["-march=native"] if os.uname().machine == "x86_64" else []
    done = subprocess.run(
        [*driver, *_OPTIONS, level, *machine, *_SHARED, "-o", str(output), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ArtifactError(f"{driver[0]} refuses the kernels' source: {done.stderr[:2000]}")


def _compiler() -> list[str]:
    """The compiler of the variable ``CXX``, or a usual one."""
    named = os.environ.get("CXX") or next((name for name in _COMPILERS if shutil.which(name)), "")
    if not named:
        raise ArtifactError(
            "CUDA kernels on the CPU require a C++ compiler, and none was found. "
            "Install g++ or name one in the variable CXX."
        )
    return shlex.split(named)
