"""Counted instructions as stretches of code that are executed from end to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tvmconv.lab.estimation.assembly import Instruction
from tvmconv.lab.estimation.counting import Section


@dataclass(frozen=True)
class Stretch:
    """Instructions that follow each other in memory and were executed equally often.

    What qemu translates as one block may begin in the middle of another one, and ends at pages
    and at branches that are never taken; a stretch does neither.

    Parameters
    ----------
    codes
        Their bytes in hexadecimal.
    runs
        How often.
    loop
        Whether it ends with a branch to its own start.
    """

    codes: tuple[str, ...]
    runs: int
    loop: bool = False


def stretches(section: Section, known: Mapping[str, Instruction]) -> list[Stretch]:
    """A section's code, cut at what is executed another number of times, and behind jumps.

    Parameters
    ----------
    section
        What was counted.
    known
        Its instructions, see :func:`~tvmconv.lab.estimation.assembly.disassembled`.
    """
    return list(_cut(section, known))


def _cut(section: Section, known: Mapping[str, Instruction]) -> Iterator[Stretch]:
    start, end, count = 0, -1, 0
    codes: list[str] = []
    for (address, code), runs in sorted(section.runs.items()):
        if codes and (address != end or runs != count):
            yield Stretch(tuple(codes), count)
            codes = []
        if not codes:
            start, count = address, runs
        codes.append(code)
        end = address + len(code) // 2
        instruction = known.get(code)
        if instruction is None:
            continue
        target = instruction.target
        back = target is not None and target <= 0
        if back or instruction.ends:
            loop = target is not None and address + target == start
            yield Stretch(tuple(codes), count, loop)
            codes = []
    if codes:
        yield Stretch(tuple(codes), count)
