"""Counted instructions as stretches of code that are executed from end to end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tvmconv.lab.estimation.assembly import Instruction
from tvmconv.lab.estimation.counting import Section


@dataclass(frozen=True)
class Stretch:
    """Consecutive instructions in memory that were executed equally often.

    A block of qemu may begin in the middle of another one, and ends at pages and at branches that
    are never taken. A stretch does neither. ``codes`` are bytes in hexadecimal. A ``loop`` ends
    with a branch to its own start.
    """

    codes: tuple[str, ...]
    runs: int
    loop: bool = False


def stretches(section: Section, known: Mapping[str, Instruction]) -> list[Stretch]:
    """A section's code, cut where the number of runs changes, and after jumps.

    ``known`` are its instructions, see :func:`~tvmconv.lab.estimation.assembly.disassembled`.
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
