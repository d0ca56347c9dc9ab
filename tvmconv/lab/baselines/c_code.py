"""C functions of a case, compiled by the system's C compiler for this CPU, with OpenMP."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from .case import Array

_OPTIONS = ("-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC", "-std=c99")


def _compiler() -> list[str]:
    """The command of ``CC``, or ``cc``."""
    command = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(command[0]) is None:
        raise ImportError(f"{command[0]} is not installed, and compiles this baseline")
    return command


@lru_cache(maxsize=1)
def version() -> str:
    """The first line of the compiler's version."""
    answer = subprocess.run([*_compiler(), "--version"], check=True, capture_output=True, text=True)
    return answer.stdout.splitlines()[0]


def library(folder: Path, source: Path, sizes: dict[str, int]) -> ctypes.CDLL:
    """A C file with the sizes of a layer as constants, compiled and loaded."""
    result = folder / f"{source.stem}.so"
    constants = [f"-D{name}={value}L" for name, value in sizes.items()]
    command = [*_compiler(), *_OPTIONS, *constants, str(source), "-o", str(result)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()}")
    # threads that wait must not take the CPUs of a library's own threads
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    return ctypes.CDLL(str(result))


def pointer(array: Array | None) -> ctypes.c_void_p:
    """The address of an array's values, which keeps the array alive, or a null pointer."""
    if array is None:
        return ctypes.c_void_p(None)
    found: ctypes.c_void_p = array.ctypes.data_as(ctypes.c_void_p)
    return found
