"""Machine code as text, and what an instruction is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tvmconv.core.errors import ArtifactError
from tvmconv.estimation.tools import llvm_tool, output_of

# of vectors; those of single values (vfmadd231ss, fmadd) are none
_MULTIPLY_ADD = {
    "aarch64": re.compile(r"(fn?ml[as]|fn?mad|fn?msb)\s+(v\d+\.[24]|z\d+\.)s"),
    "x86_64": re.compile(r"vfn?m(add|sub)\d+ps\s"),
}
# what AArch64 loads into vectors, up to its address: ldr, ldp and the like by name, ld1 to ld4 in
# braces, a lane of each or, replicated, one value
_LOAD = re.compile(r"ld(?:u?r|n?p)\s+([bhsdq]\d[^\[]*)\[|ld[1-4](r?)\s+\{([^}]*)\}(\[\d+\])?")
_WIDE = re.compile(r"\bq\d+|\.(?:16b|8h|4s|2d)\b")
_VECTOR = re.compile(r"\b[bhsdqv]\d+")
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

    Parameters
    ----------
    text
        In the assembler's language.
    size
        Bytes.
    ends
        Whether what follows it in memory is never executed next, or only after a call.
    target
        Where it may branch to, in bytes from its own address; None for what does not branch.
    multiply_add
        Whether it multiplies and adds vectors of float32.
    wide_loads, narrow_loads
        Vector registers of AArch64 that it loads: 128 bits of each, or fewer.
    """

    text: str
    size: int
    ends: bool = False
    target: int | None = None
    multiply_add: bool = False
    wide_loads: int = 0
    narrow_loads: int = 0


def architecture(triple: str) -> str:
    """Of a triple, as far as estimates know it.

    Raises
    ------
    ArtifactError
        If they do not.
    """
    name = triple.partition("-")[0]
    if name not in _BRANCH:
        raise ArtifactError(f"estimates are made for {' and '.join(_BRANCH)}, not for {name}")
    return name


def disassembled(codes: Iterable[str], triple: str) -> dict[str, Instruction]:
    """Instructions by their bytes in hexadecimal; what LLVM does not know is left out."""
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
    wide, narrow = _loads(text) if kind == "aarch64" else (0, 0)
    return Instruction(
        text,
        size,
        ends=bool(_JUMP[kind].match(text)),
        target=target,
        multiply_add=bool(_MULTIPLY_ADD[kind].match(text)),
        wide_loads=wide,
        narrow_loads=narrow,
    )


def _loads(text: str) -> tuple[int, int]:
    """Vector registers that an instruction of AArch64 loads, whole ones and others."""
    if not (found := _LOAD.match(text)):
        return 0, 0
    named, replicated, listed, lane = found.groups()
    registers = named or listed
    count = len(_VECTOR.findall(registers))
    wide = 0 if replicated or lane else len(_WIDE.findall(registers))
    return wide, count - wide


def _lines(codes: list[str], triple: str) -> list[str]:
    """The text of each; empty where LLVM knows none."""
    kind = architecture(triple)
    command = [llvm_tool("llvm-mc"), "--disassemble", f"-triple={kind}"]
    # x86's decoder knows all by itself
    command += ["-mattr=+all"] if kind == "aarch64" else []
    given = "\n".join(" ".join(f"0x{c[i : i + 2]}" for i in range(0, len(c), 2)) for c in codes)
    said = output_of(command, given + "\n")
    lines = [" ".join(line.split()) for line in said.splitlines()]
    lines = [line for line in lines if line and not line.startswith(".")]
    if len(lines) == len(codes):
        return lines
    if len(codes) == 1:
        return [""] if not lines else [lines[0]]
    half = len(codes) // 2
    return _lines(codes[:half], triple) + _lines(codes[half:], triple)
