"""The instructions of a kernel's main loop, read from machine code by NVIDIA's nvdisasm."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tvmconv.compile.nvidia import find_program
from tvmconv.core.errors import ArtifactError

_LABEL = re.compile(r"\s*(\.L_x_\d+):")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)(.*?);")
_TARGET = re.compile(r"`\((\.L_x_\d+)\)")
_MULTIPLY_ADDS = ("FFMA", "HMMA", "HGMMA")


@dataclass(frozen=True)
class Loop:
    """Instructions of one loop, in order, each by its name with all suffixes."""

    instructions: tuple[str, ...]

    def count(self, *names: str) -> int:
        """The number of instructions with one of these names, suffixes aside."""
        return sum(name.split(".")[0] in names for name in self.instructions)

    @property
    def share(self) -> float:
        """FMA over all instructions: the share of issue slots for arithmetic."""
        return self.count(*_MULTIPLY_ADDS) / max(1, len(self.instructions))


def find_nvdisasm() -> str:
    """The program; raises :class:`ArtifactError` if it is not installed."""
    path = find_program("nvdisasm")
    if path is None:
        raise ArtifactError(
            "cannot read GPU machine code: nvdisasm was not found. Install it by pip install "
            "nvidia-cuda-nvdisasm, or name it in the variable NVDISASM."
        )
    return path


def main_loops(cubin: bytes) -> dict[str, Loop]:
    """The loop with most FMA of each kernel with a loop.

    ``cubin`` is machine code from :func:`~tvmconv.compile.nvcc.compile_cubin`.
    """
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        path = Path(folder) / "kernels.cubin"
        path.write_bytes(cubin)
        done = subprocess.run(
            [find_nvdisasm(), "-c", str(path)], capture_output=True, text=True, check=False
        )
    if done.returncode:
        raise ArtifactError(f"nvdisasm does not read the kernels: {done.stderr[:500]}")
    found = {}
    for part in re.split(r"\n\s*\.section\s+", done.stdout):
        named = re.match(r"\.text\.(\w+)", part)
        if named and (loops := _loops(part)):
            found[named[1]] = max(loops, key=lambda loop: loop.count(*_MULTIPLY_ADDS))
    return found


def _loops(text: str) -> list[Loop]:
    """The instructions between a label and a branch back to it, in the code of one kernel."""
    places: dict[str, int] = {}
    names: list[str] = []
    found = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            places[label[1]] = len(names)
        if read := _INSTRUCTION.match(line):
            names.append(read[1])
            target = _TARGET.search(read[2])
            if read[1].startswith("BRA") and target and target[1] in places:
                found.append(Loop(tuple(names[places[target[1]] :])))
    return found
