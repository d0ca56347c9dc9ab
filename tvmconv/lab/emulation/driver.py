"""A driver whose GPU is the processor: whole models for GPUs run on it, launch program included."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.emulation.module import compile_cuda

_SOURCE = Path(__file__).parent / "c/driver.c"


def write_driver(sources: Iterable[str], folder: Path) -> dict[str, str]:
    """Make a ``libcuda.so.1`` that runs the kernels of some CUDA sources on the processor.

    Parameters
    ----------
    sources
        CUDA C++ of a model's kernels: ``sources`` of :class:`~tvmconv.compile.gpu.GpuCode`; none
        for a driver that loads no module.
    folder
        Where; made if it does not exist. One driver's kernels are those of one model.

    Returns
    -------
    dict
        The environment in which a program finds this driver before any other.

    Raises
    ------
    ArtifactError
        If there is no compiler for C or C++, or it refuses the sources.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # each has a head of its own, which the emulator replaces
    kernels = [source[max(0, source.find('extern "C"')) :] for source in sources]
    if kernels:
        compile_cuda("\n".join(kernels), folder / "kernels.so")
    compile_driver(folder)
    return {"LD_LIBRARY_PATH": str(folder)}


def compile_driver(folder: Path) -> None:
    """Write ``libcuda.so.1`` alone.

    Raises
    ------
    ArtifactError
        If there is no C compiler, or it refuses the driver.
    """
    options = ["-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1"]
    command = ["cc", *options, "-o", str(folder / "libcuda.so.1"), str(_SOURCE), "-ldl"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise ArtifactError(f"the emulated driver needs a C compiler: {error}") from error
    if done.returncode:
        raise ArtifactError(f"the emulated driver does not compile: {done.stderr[:2000]}")
