"""A stand-in for nvcc whose machine code the emulated driver runs on the processor.

``python -m tvmconv.emulation.nvcc ... -o FILE SOURCE`` writes a file that begins as fatbins do and
holds the kernels as a shared object. With it in ``NVCC`` and the driver on the library path all
that compiles and launches kernels runs without a GPU: builds, benches, the tuner.
"""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tvmconv.core.errors import ArtifactError
from tvmconv.emulation.driver import compile_driver
from tvmconv.emulation.module import compile_cuda
from tvmconv.emulation.translate import translate

# of a fatbin: magic, version, size of its head, size of the rest
_HEAD = struct.Struct("<IHHQ")
_MAGIC = 0xBA55ED50
# of its parts: kind, version, size of the head, size of the rest, ..., architecture
_PART = struct.Struct("<HHIQ12xI32x")
_PTX, _MACHINE_CODE, _EMULATED = 1, 2, 0x7A00
_CODE = re.compile(r"(sm|compute)_(\d+)")


def write_toolkit(folder: Path) -> dict[str, str]:
    """Write the stand-in for nvcc and a ``libcuda.so.1`` that runs what it makes.

    Parameters
    ----------
    folder
        Made if it does not exist.

    Returns
    -------
    dict
        The environment in which programs use both.

    Raises
    ------
    ArtifactError
        If there is no C compiler.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compile_driver(folder)
    program = folder / "nvcc"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tvmconv.emulation.nvcc "$@"\n')
    program.chmod(0o755)
    root = str(Path(__file__).parents[2])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "NVCC": str(program),
        "LD_LIBRARY_PATH": str(folder),
        "PYTHONPATH": os.pathsep.join(paths),
    }


def emulated_fatbin(source: str, codes: Sequence[str]) -> bytes:
    """What stands for the machine code of a CUDA source.

    Parameters
    ----------
    source
        CUDA C++.
    codes
        What nvcc is asked for: ``sm_90`` and ``compute_90``, whose parts are there but empty.

    Raises
    ------
    ArtifactError
        If there is no C++ compiler, or it refuses the source.
    """
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path = Path(folder) / "kernels.so"
        compile_cuda(source, path)
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=False)
        library = path.read_bytes()
    library += bytes(-len(library) % 8)
    parts = b"".join(_part(kind, int(number)) for kind, number in map(_kind, codes))
    parts += _PART.pack(_EMULATED, 0, _PART.size, len(library), 0) + library
    return _HEAD.pack(_MAGIC, 1, _HEAD.size, len(parts)) + parts


def _kind(code: str) -> tuple[int, str]:
    name, number = code.split("_")
    return (_MACHINE_CODE if name == "sm" else _PTX), number


def _part(kind: int, architecture: int) -> bytes:
    return _PART.pack(kind, 0, _PART.size, 0, architecture)


def _asked(words: Sequence[str]) -> list[str]:
    """The codes of all ``code=[...]`` and of ``-arch=``."""
    named = [word.partition("code=")[2] for word in words if "code=" in word]
    named += [word for word in words if word.startswith("-arch=")]
    return [f"{kind}_{number}" for word in named for kind, number in _CODE.findall(word)]


def main() -> int:
    """Compile as nvcc would; what ptxas says of resources is zeros."""
    source = Path(sys.argv[-1]).read_text()
    try:
        content = emulated_fatbin(source[max(0, source.find('extern "C"')) :], _asked(sys.argv))
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    Path(sys.argv[sys.argv.index("-o") + 1]).write_bytes(content)
    for name in translate(source).kernels:
        print(f"ptxas info    : Function properties for {name}", file=sys.stderr)
        print("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", file=sys.stderr)
        print("ptxas info    : Used 0 registers", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
