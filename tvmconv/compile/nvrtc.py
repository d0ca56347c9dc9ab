"""NVRTC: NVIDIA's compiler for CUDA as a library, which needs neither nvcc nor a C++ compiler.

PyTorch's packages for GPUs include it. It runs in separate processes, so that a crash does not end
a build: ``python -m tvmconv.compile.nvrtc LIBRARY ISA 0|1 SOURCE OUTPUT``, where 1 asks for PTX.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Sequence
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmconv.compile.nvcc import run_compiler
from tvmconv.compile.nvidia import libraries
from tvmconv.core.fatbin import MACHINE_CODE, PTX, Part, fatbin_of, new_part, parts_of

_OPTIONS = ("-std=c++17", "--ptxas-options=-v")
_NAME = re.compile(r"libnvrtc\.so\.(\d+)")
# it lacks the headers of C++; kernels include this one
_HEADERS = {
    b"cstdint": b"""typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
"""
}
# continued lines in the log of ptxas from NVRTC
_CONTINUED = re.compile(r"^ptxas\s+\.\s*", re.MULTILINE)


def find_nvrtc() -> str | None:
    """The library that the variable ``NVRTC`` names, or else the latest installed one."""
    if named := os.environ.get("NVRTC"):
        return named
    found = [(int(match[1]), str(p)) for p in libraries() if (match := _NAME.fullmatch(p.name))]
    return max(found)[1] if found else None


@dataclass(frozen=True)
class Nvrtc:
    """The compiler as a library: ``libnvrtc.so.13``, or its path."""

    path: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """The compiler and its options, on which results depend besides the source."""
        place = Path(self.path)
        return (self.path, str(place.stat().st_size) if place.is_file() else "", *_OPTIONS)

    def parts(self, source: Path, isa: str, with_ptx: bool) -> tuple[list[Part], str]:
        """As for :class:`~tvmconv.compile.nvcc.Nvcc`, with PTX of the library's own version."""
        fatbin = source.with_name(f"{isa}.fatbin")
        arguments = (self.path, isa, str(int(with_ptx)), source, fatbin)
        # the process imports this same package
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        state = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        said = run_compiler([sys.executable, "-m", __name__, *arguments], state)
        return parts_of(fatbin.read_bytes()), _CONTINUED.sub("    ", said)


class _Library:
    """Functions of NVRTC, which return 0 for success."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = c_char_p

    def call(self, name: str, *arguments: Any) -> None:
        if status := getattr(self._library, name)(*arguments):
            said = self._library.nvrtcGetErrorString(c_int(status)) or b"an unknown fault"
            raise RuntimeError(f"error: {name} failed: {said.decode()}")

    def text(self, what: str, program: c_void_p) -> bytes:
        """The result of ``nvrtcGet...``, with the zero byte that ends it."""
        size = c_size_t()
        self.call(f"nvrtcGet{what}Size", program, byref(size))
        content = ctypes.create_string_buffer(max(size.value, 1))
        self.call(f"nvrtcGet{what}", program, content)
        return content.raw


def compiled(library: str, source: bytes, isa: str) -> tuple[bytes, bytes, str]:
    """Machine code, PTX and the log of a source; errors hold the log."""
    nvrtc, program = _Library(library), c_void_p()
    count = len(_HEADERS)
    names, texts = (c_char_p * count)(*_HEADERS), (c_char_p * count)(*_HEADERS.values())
    nvrtc.call("nvrtcCreateProgram", byref(program), source, b"kernels.cu", count, texts, names)
    options = [option.encode() for option in (*_OPTIONS, f"--gpu-architecture={isa}")]
    fault = ""
    try:
        nvrtc.call(
            "nvrtcCompileProgram", program, len(options), (c_char_p * len(options))(*options)
        )
    except RuntimeError as error:
        fault = str(error)
    said = nvrtc.text("ProgramLog", program).rstrip(b"\0").decode(errors="replace")
    if fault:
        raise RuntimeError(f"{said}\n{fault}")
    return nvrtc.text("CUBIN", program), nvrtc.text("PTX", program), said


def main(arguments: Sequence[str]) -> int:
    """Compile a file to a fatbin of one architecture, and write its machine code as a cubin."""
    library, isa, with_ptx, source, output = arguments
    try:
        cubin, ptx, said = compiled(library, Path(source).read_bytes(), isa)
    except (OSError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    number = int(isa.removeprefix("sm_"))
    parts = [new_part(MACHINE_CODE, number, cubin)]
    parts += [new_part(PTX, number, ptx)] * int(with_ptx)
    Path(output).write_bytes(fatbin_of(parts))
    Path(output).with_name(f"{isa}.cubin").write_bytes(cubin)
    print(said, file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
