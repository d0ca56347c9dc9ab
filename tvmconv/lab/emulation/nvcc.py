"""A substitute for nvcc whose machine code the emulated driver runs on the CPU.

``python -m tvmconv.lab.emulation.nvcc ... -o FILE SOURCE`` writes a file that begins as fatbins do
and holds the kernels as a shared object. With it in ``NVCC`` and the driver on the library path,
builds, benches and the tuner run without a GPU.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tvmconv.core.errors import ArtifactError
from tvmconv.core.fatbin import MACHINE_CODE, PTX, Part, fatbin_of, new_part, ptx_version
from tvmconv.lab.emulation.compiler import compile_cuda
from tvmconv.lab.emulation.driver import compile_driver
from tvmconv.lab.emulation.translate import translate
from tvmconv.measuring.processes import package_path

# a kind of parts that NVIDIA does not have: a shared object
_EMULATED = 0x7A00
_CODE = re.compile(r"(sm|compute)_(\d+)")
# as of nvcc 13.0: the start of an ELF file of its form, and PTX of its version
_ELF = b"\x7fELF\x02\x01\x01A\x08" + bytes(7)
_RELEASE, _PTX_VERSION = "release 13.0, V13.0.0", ".version 9.0\n"


def write_toolkit(folder: Path) -> dict[str, str]:
    """Write the substitute for nvcc and a ``libcuda.so.1`` that runs its output into a folder.

    Returns the environment in which programs use both. Raises :class:`ArtifactError` if a C
    compiler is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    compile_driver(folder)
    program = folder / "nvcc"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tvmconv.lab.emulation.nvcc "$@"\n')
    program.chmod(0o755)
    return {
        "NVCC": str(program),
        "LD_LIBRARY_PATH": str(folder),
        "PYTHONPATH": package_path(),
    }


def emulated_fatbin(source: str, codes: Sequence[str]) -> bytes:
    """The machine code of a CUDA source, as nvcc reads it, for the emulated driver.

    The parts of requested ``codes`` (``sm_90``, ``compute_90``) exist but are empty. Raises
    :class:`ArtifactError` if a C++ compiler is missing, or refuses the source.
    """
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path = Path(folder) / "kernels.so"
        compile_cuda(source, path, many_launches=True)
        subprocess.run(["strip", "--strip-unneeded", str(path)], check=False)
        library = path.read_bytes()
    codes_there = (_part(code, source) for code in codes)
    return fatbin_of([*codes_there, new_part(_EMULATED, 0, library)])


def _part(code: str, source: str) -> Part:
    kind, number = code.split("_")
    if kind == "compute":
        return new_part(PTX, int(number), b".version %d.%d\n\0" % ptx_version(source.encode()))
    return new_part(MACHINE_CODE, int(number), _ELF)


def _asked(arguments: Sequence[str]) -> list[str]:
    """The codes of all ``code=[...]`` and of ``-arch=``."""
    named = [word.partition("code=")[2] for word in arguments if "code=" in word]
    named += [word for word in arguments if word.startswith("-arch=")]
    return [f"{kind}_{number}" for word in named for kind, number in _CODE.findall(word)]


def main() -> int:
    """Compile as nvcc would; ptxas's figures are zeros.

    PTX is the source itself after a line with PTX's version.
    """
    if "--version" in sys.argv:
        print(f"emulated Cuda compilation tools, {_RELEASE}")
        return 0
    source, output = Path(sys.argv[-1]).read_text(), Path(sys.argv[sys.argv.index("-o") + 1])
    if "-ptx" in sys.argv:
        output.write_text(_PTX_VERSION + source)
        return 0
    try:
        content = emulated_fatbin(source, _asked(sys.argv))
    except ArtifactError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    output.write_bytes(content)
    for name in translate(source).kernels:
        print(f"ptxas info    : Function properties for {name}", file=sys.stderr)
        print("    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads", file=sys.stderr)
        print("ptxas info    : Used 0 registers", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
