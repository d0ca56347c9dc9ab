"""Reading generated assembly: instructions, loops, spills, stores and prefetches.

Tests read assembly through this module alone, for x86-64 and for AArch64.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tvm.runtime import Module

from tvmconv.machines.record import Machine
from tvmconv.tir.pipeline import compile_function, unchecked_calls

# x86-64 names vector registers by their length
REGISTER = {128: "xmm", 256: "ymm", 512: "zmm"}
Body = list[str]

# FMA of NEON, by vectors and by a lane
NEON_SUM = r"fmla\s+v\d+\.4s, v\d+\.4s, v\d+\.4s|fmla\s.*v\d+\.s\[\d\]"
NEON_LANE = r"fmla\s.*\bv\d+\.s\[\d\]"
# FMA of SVE by a lane of each segment, and by vectors under a predicate; INT8 products by a lane
SVE_LANE = r"fmla\s+z\d+\.s, z\d+\.s, z[0-7]\.s\[[0-3]\]"
SVE_SUM = r"fm(?:la|ad)\s+z\d+\.s, p\d/m, z\d+\.s, z\d+\.s"
SVE_DOT = r"sdot\s+z\d+\.s, z\d+\.b, z[0-7]\.b\[[0-3]\]"
SVE_LOAD = r"ld1w\s+\{ z\d+\.s \}"
SVE_GATHER = r"ld1d\s+\{ z\d+\.d \}, p\d/z, \[x\d+, z\d+\.d, lsl #3\]"
SVE_STORE = r"st1w\s+\{ z\d+\.s \}"
# stack space for scalable vectors; other ``str`` of them may be plain stores of whole tiles
SVE_FRAME = r"addvl\s+sp, sp, #-"
SVE_SPILL = r"(?:str|ldr)\s+z\d+, \["
# the stack slot of a scalable vector may be addressed by any register
_SPILL = re.compile(rf"(?=.*%[xyz]mm).*\(%rsp|(?:st|ld)\w+\s+[qv]\d+.*\[sp|{SVE_SPILL}")
_X86_JUMP = re.compile(r"\s+j\w+\s+(\.L\w+)")
_ARM_JUMP = re.compile(r"\s+(?:b\.\w+|b|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.L\w+)")


def matching(pattern: str, lines: Iterable[str]) -> Body:
    """The lines whose instruction matches a regular expression from its mnemonic on."""
    compiled = re.compile(pattern)
    return [line for line in lines if compiled.match(_without_prefix(line))]


def _without_prefix(line: str) -> str:
    """A line from its mnemonic on: LLVM prints an encoding before instructions of AVX-VNNI."""
    return line.lstrip().removeprefix("{vex}").lstrip()


def spills(lines: Iterable[str]) -> Body:
    """Instructions that move a vector register to or from the stack, of either architecture."""
    return [line for line in lines if _SPILL.match(line.lstrip())]


@dataclass(frozen=True)
class Assembly:
    """The assembly of compiled functions.

    Parameters
    ----------
    text
        As LLVM prints it.
    machine
        The target.
    """

    text: str
    machine: Machine

    @property
    def lines(self) -> Body:
        """All lines, with labels and directives."""
        return self.text.splitlines()

    @property
    def register(self) -> str:
        """x86-64 only: the name of the widest registers that the target uses."""
        return REGISTER[self.machine.vector.bits]

    def count(self, mnemonics: str) -> int:
        """How many instructions have a mnemonic that a regular expression describes."""
        pattern = rf"^[ \t]+(?:\{{vex\}}[ \t]+)?(?:{mnemonics})(?=\s|$)"
        return len(re.findall(pattern, self.text, re.MULTILINE))

    def has(self, pattern: str) -> bool:
        """Whether a regular expression is found anywhere."""
        return re.search(pattern, self.text) is not None

    def prefetches(self) -> set[str]:
        """x86-64 only: the prefetch instructions that occur."""
        return set(re.findall(r"prefetch\w+", self.text))

    def loops(self) -> list[Body]:
        """The instructions of every innermost loop; on x86-64 one branch inside is allowed."""
        if self.machine.architecture == "aarch64":
            return _arm_loops(self.lines)
        return [body for body in _x86_loops(self.lines) if _jumps(body) <= 2]

    def straight_loops(self) -> list[Body]:
        """x86-64 only: the loops without branches inside."""
        return [body for body in self.loops() if _jumps(body) == 1]

    def tile_loops(self, tile: int, without: str = "vmulps|vaddps") -> list[Body]:
        """x86-64 only: straight loops whose FMA are whole register tiles, without other sums."""
        return [
            body
            for body in self.straight_loops()
            if (count := self.multiply_adds(body))
            and count % tile == 0
            and not matching(without, body)
        ]

    def hot_loop(self, sums: str = NEON_SUM) -> Body:
        """The loop with the most FMA; on AArch64 with the most instructions like ``sums``."""
        if self.machine.architecture != "aarch64":
            return max(self.straight_loops(), key=self.multiply_adds)
        return max(self.loops(), key=lambda body: len(matching(sums, body)))

    def multiply_adds(self, body: Body) -> int:
        """x86-64 only: packed FMA on the widest registers."""
        return len(matching(rf"vfn?madd\w+ps\s.*%{self.register}", body))

    def spills(self, body: Body) -> Body:
        """x86-64 only: instructions on the widest registers that touch the stack."""
        return [line for line in spills(body) if f"%{self.register}" in line]

    def marked_spills(self) -> Body:
        """x86-64 only: instructions that LLVM marks as spills of the widest registers."""
        return [line for line in self.lines if "Spill" in line and self.register in line]

    def stores(self, body: Body) -> Body:
        """x86-64 only: stores of the widest registers to memory."""
        return matching(rf"vmov\w+\s+%{self.register}\d+,\s*\S*\(", body)


def assembly(built: Any, machine: Machine | None = None) -> Assembly:
    """The assembly of a kernel, which is compiled first, or of compiled functions.

    Parameters
    ----------
    built
        The kernel or functions.
    machine
        The target, for functions that do not name it.
    """
    # a module takes any attribute for a function to run, which its processor may lack
    if not isinstance(built, Module) and hasattr(built, "prim_func"):
        return _of_kernel(built)
    return Assembly(str(built.inspect_source("s")), machine or built.machine)


# several tests of a file read the same kernels
@lru_cache(maxsize=64)
def _of_kernel(kernel: Any) -> Assembly:
    code = compile_function(kernel.prim_func(), kernel.machine, calls=unchecked_calls)
    return Assembly(str(code.inspect_source("s")), kernel.machine)


def _x86_loops(lines: Body) -> Iterable[Body]:
    labels = {line[:-1]: i for i, line in enumerate(lines) if re.fullmatch(r"\.L\w+:", line)}
    for i, line in enumerate(lines):
        jump = _X86_JUMP.match(line)
        if jump and labels.get(jump[1], i) < i:
            yield [text.strip() for text in lines[labels[jump[1]] : i + 1]]


def _jumps(body: Body) -> int:
    return sum(text.startswith("j") for text in body)


def _arm_loops(lines: Body) -> list[Body]:
    labels = {line.split(":")[0]: i for i, line in enumerate(lines) if line.startswith(".L")}
    jumps = [(i, _ARM_JUMP.match(line)) for i, line in enumerate(lines)]
    spans = [(labels[m[1]], i) for i, m in jumps if m and labels.get(m[1], i) < i]
    inner = [
        (a, b) for a, b in spans if not any((a, b) != (c, d) and a <= c <= d <= b for c, d in spans)
    ]
    return [[line for line in lines[a : b + 1] if line[:1] == "\t"] for a, b in inner]
