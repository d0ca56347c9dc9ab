"""A driver whose GPU is the CPU: it runs whole models for GPUs, with their launch program."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.emulation.compiler import compile_cuda

_SOURCES = Path(__file__).parent / "c"
# the version of each of its symbols
_CUDART = "libcudart.so.13"


def write_driver(sources: Iterable[str], folder: Path) -> dict[str, str]:
    """Make a ``libcuda.so.1`` in a folder that runs the kernels of some CUDA sources on the CPU.

    ``sources`` are the CUDA C++ of one model's kernels, see :class:`~tvmconv.compile.gpu.GpuCode`;
    empty for a driver that loads no module. Returns the environment in which a program finds this
    driver before any other. Raises :class:`ArtifactError` if a compiler for C or C++ is missing, or
    refuses the sources.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # the emulator replaces the head of each
    kernels = [source[max(0, source.find('extern "C"')) :] for source in sources]
    if kernels:
        compile_cuda("\n".join(kernels), folder / "kernels.so")
    compile_driver(folder)
    return {"LD_LIBRARY_PATH": str(folder)}


def compile_driver(folder: Path) -> None:
    """Write ``libcuda.so.1`` alone; raises :class:`ArtifactError` without a working C compiler."""
    _compile("driver.c", folder / "libcuda.so.1", "-ldl")


def compile_runtime(folder: Path) -> None:
    """Write a ``libcudart.so.13`` next to a driver, for TVM's runtime; fails as the driver."""
    script = folder / "cudart.map"
    script.write_text(f"{_CUDART} {{ global: cuda*; local: *; }};\n")
    driver = f"-L{folder}", "-l:libcuda.so.1"
    _compile("cudart.c", folder / _CUDART, f"-Wl,--version-script={script}", *driver)


def _compile(source: str, output: Path, *libraries: str) -> None:
    options = ["-shared", "-fPIC", "-O2", "-fvisibility=hidden", f"-Wl,-soname,{output.name}"]
    command = ["cc", *options, "-o", str(output), str(_SOURCES / source), *libraries]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ArtifactError(
            f"the emulated driver requires a C compiler: {error}. Install gcc."
        ) from error
    if done.returncode:
        raise ArtifactError(f"the emulated driver does not compile: {done.stderr[:2000]}")
