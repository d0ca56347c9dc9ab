"""Machine code as text, and properties of an instruction."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.tools import llvm_tool, output_of

# on vectors, not on single values (vfmadd231ss, fmadd)
_MULTIPLY_ADD = {
    "aarch64": re.compile(r"(fn?ml[as]|fn?mad|fn?msb)\s+(v\d+\.[24]|z\d+\.)s"),
    "x86_64": re.compile(r"vfn?m(add|sub)\d+ps\s"),
}
# multiplications without an addition, which occupy AArch64's multipliers as long
_MULTIPLY = re.compile(r"fn?mul\s+(v\d+\.[24]|z\d+\.)s")
# vector loads of AArch64, up to the address: ldr, ldp and so on by name, ld1 to ld4 in braces.
# These load a lane of each or, replicated, one value.
_LOAD = re.compile(r"ld(?:u?r|n?p)\s+([bhsdq]\d[^\[]*)\[|ld[1-4](r?)\s+\{([^}]*)\}(\[\d+\])?")
_WIDE = re.compile(r"\bq\d+|\.(?:16b|8h|4s|2d)\b")
_VECTOR = re.compile(r"\b[bhsdqv]\d+")
# 64 bits into one half of a vector: from memory into the lower one, or from an integer register
_HALF = re.compile(r"ldu?r\s+d(\d+),|(?:mov|ins)\s+v(\d+)\.d\[[01]\], x")
_INSERT = re.compile(r"(?:mov|ins)\s+v\d+\.[bhsd]\[\d+\], [wx]")
_JUMP = {
    "aarch64": re.compile(r"(b|br|ret|retaa|retab|bl|blr|svc|brk|udf)\b(?!\.)"),
    "x86_64": re.compile(r"(jmp|ret|call|syscall|ud2)[qlw]?\b"),
}
_BRANCH = {
    "aarch64": re.compile(r"(?:b\.\w+|bc\.\w+|cbn?z|tbn?z|b)\s.*#(-?\d+)$"),
    "x86_64": re.compile(r"j\w+\s+(-?\d+)$"),
}


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    ``text`` is in the assembler's language, and ``size`` in bytes. ``ends`` is whether the next
    instruction in memory is never executed next, or only after a call. ``target`` is where it may
    branch to, in bytes from its own address; None without a branch. ``multiply_add`` is whether it
    is an FMA on FP32 vectors. ``multiply`` is whether it multiplies FP32 vectors of AArch64 without
    adding. ``wide_loads`` counts vector registers of AArch64 that it loads whole, 128 bits, and
    ``narrow_loads`` others. ``insert`` is whether it inserts an integer register of AArch64 into a
    vector. ``half`` is the number of the vector of which it loads or inserts only one half.
    """

    text: str
    size: int
    ends: bool = False
    target: int | None = None
    multiply_add: bool = False
    multiply: bool = False
    wide_loads: int = 0
    narrow_loads: int = 0
    insert: bool = False
    half: str | None = None


def architecture(triple: str) -> str:
    """The architecture of a triple; raises :class:`ArtifactError` if estimates do not know it."""
    name = triple.partition("-")[0]
    if name not in _BRANCH:
        raise ArtifactError(f"estimates: architecture {name}. Expected {' or '.join(_BRANCH)}.")
    return name


def disassembled(codes: Iterable[str], triple: str) -> dict[str, Instruction]:
    """Instructions by their bytes in hexadecimal, without those unknown to LLVM."""
    wanted = list(dict.fromkeys(codes))
    if not wanted:
        return {}
    lines = _lines(wanted, triple)
    kind = architecture(triple)
    return {
        code: describe(text, len(code) // 2, kind)
        for code, text in zip(wanted, lines, strict=True)
        if text
    }


def describe(text: str, size: int, kind: str) -> Instruction:
    """An instruction from its text and bytes."""
    branch = _BRANCH[kind].match(text)
    target = None
    if branch:
        # x86 counts from the end of the instruction
        target = int(branch[1]) + (size if kind == "x86_64" else 0)
    arm = kind == "aarch64"
    wide, narrow = _loads(text) if arm else (0, 0)
    half = _HALF.match(text) if arm else None
    return Instruction(
        text,
        size,
        ends=bool(_JUMP[kind].match(text)),
        target=target,
        multiply_add=bool(_MULTIPLY_ADD[kind].match(text)),
        multiply=arm and bool(_MULTIPLY.match(text)),
        wide_loads=wide,
        narrow_loads=narrow,
        insert=arm and bool(_INSERT.match(text)),
        half=half[1] or half[2] if half else None,
    )


def lone_inserts(code: Iterable[Instruction]) -> int:
    """Insertions into vectors of AArch64 that do not share a cycle with a neighbor.

    Two neighbors share a cycle if each writes half of a different vector, and not both are loads.
    """
    count, before = 0, None
    for this in code:
        pairs = before is not None and this.half is not None and before.half != this.half
        if before is not None and pairs and (before.insert or this.insert):
            # a load's cycle is counted elsewhere
            count -= before.insert and not this.insert
            before = None
        else:
            count += this.insert
            before = this if this.half is not None else None
    return count


def _loads(text: str) -> tuple[int, int]:
    """Vector registers that an instruction of AArch64 loads, whole ones and others."""
    if not (found := _LOAD.match(text)):
        return 0, 0
    named, replicated, listed, run = found.groups()
    registers = named or listed
    count = len(_VECTOR.findall(registers))
    wide = 0 if replicated or run else len(_WIDE.findall(registers))
    return wide, count - wide


def _lines(codes: list[str], triple: str) -> list[str]:
    """The text of each; empty if LLVM does not know it."""
    kind = architecture(triple)
    command = [llvm_tool("llvm-mc"), "--disassemble", f"-triple={kind}"]
    # x86's decoder knows all instructions by default
    command += ["-mattr=+all"] if kind == "aarch64" else []
    given = "\n".join(" ".join(f"0x{c[i : i + 2]}" for i in range(0, len(c), 2)) for c in codes)
    output = output_of(command, given + "\n")
    lines = [" ".join(line.split()) for line in output.splitlines()]
    lines = [line for line in lines if line and not line.startswith(".")]
    if len(lines) == len(codes):
        return lines
    if len(codes) == 1:
        return [""] if not lines else [lines[0]]
    half = len(codes) // 2
    return _lines(codes[:half], triple) + _lines(codes[half:], triple)
