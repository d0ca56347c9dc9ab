"""Programs run under qemu, with every executed block counted."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvmconv.core.errors import ArtifactError
from tvmconv.lab.estimation.cache import digest, recall, remember
from tvmconv.lab.estimation.tools import SOURCES, counting_emulator, plugin, run

# a program closes this descriptor to begin a section, see count.c
MARK = 0x74760000
Code = tuple[int, str]


@dataclass
class Section:
    """The executed code between two marks.

    ``runs`` counts each instruction, by address and bytes in hexadecimal.
    """

    runs: Counter[Code] = field(default_factory=Counter)

    def __sub__(self, other: Section) -> Section:
        """The code that this section executed more often than another."""
        return Section(self.runs - other.runs)

    @property
    def instructions(self) -> int:
        """The number of executed instructions."""
        return sum(self.runs.values())

    def to_json(self) -> list[list[Any]]:
        """Plain data: address, instructions and runs of code that was executed equally often."""
        rows: list[list[Any]] = []
        end = -1
        for (address, code), runs in sorted(self.runs.items()):
            if address == end and rows[-1][2] == runs:
                rows[-1][1] += f".{code}"
            else:
                rows.append([address, code, runs])
            end = address + len(code) // 2
        return rows

    @classmethod
    def from_json(cls, data: Sequence[Sequence[Any]]) -> Section:
        """Inverse of :meth:`to_json`."""
        runs: Counter[Code] = Counter()
        for address, text, times in data:
            runs.update(dict.fromkeys(_instructions(address, text), times))
        return cls(runs)


def mark(section: int) -> None:
    """Begin a section of the running program, under qemu; 0 begins none.

    Programs that cannot import tvmconv call ``os.close(0x74760000 + section)`` themselves and
    ignore the error.
    """
    if not 0 <= section < 1 << 16:
        raise ValueError(f"section {section} is not from 0 to 65535")
    with contextlib.suppress(OSError):
        os.close(MARK + section)


def count(
    command: Sequence[str | Path],
    triple: str,
    *,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    whole: bool = False,
    seconds: float | None = None,
) -> dict[int, Section]:
    """Run a program of another architecture and count the executed code.

    ``command`` is the program with its arguments, ``options`` are qemu's, such as ``-cpu``,
    ``max``. If ``whole``, section 1 begins with the program; by default it marks sections itself,
    see :func:`mark`. Sections of one number are added. Raises :class:`ArtifactError` if tools are
    missing, or if the program fails, takes more than ``seconds``, or counted nothing.
    """
    qemu = counting_emulator(triple)
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as folder:
        output = Path(folder) / "counts"
        switches = f"{plugin(qemu[0])},out={output}" + ",all=on" * whole
        name = f"{Path(command[0]).name} under {qemu[0]}"
        arguments = [*qemu, *options, "-plugin", switches, *command]
        done = run(arguments, "", name, environment, seconds)
        if not output.exists():
            raise ArtifactError(
                f"{name} counted nothing: it marked no section "
                f"{done.stderr.strip()[-500:]}".rstrip()
            )
        with output.open() as file:
            return parse(file)


def counted(
    content: str,
    command: Sequence[str | Path],
    triple: str,
    *,
    options: Sequence[str] = (),
) -> dict[int, Section]:
    """As :func:`count`, once for each content.

    ``content`` is a name for everything that decides the executed code, such as a hash of the
    program, its libraries and its arguments.
    """
    key = digest(content, triple, *options, (SOURCES / "count.c").read_bytes())
    known = recall("counts", key)
    if known is not None:
        return {int(number): Section.from_json(data) for number, data in known.items()}
    found = count(command, triple, options=options)
    remember("counts", key, {number: section.to_json() for number, section in found.items()})
    return found


def parse(lines: Iterable[str]) -> dict[int, Section]:
    """The sections of a file that ``count.c`` wrote."""
    sections: dict[int, Section] = {}
    blocks: dict[str, list[Code]] = {}
    current: Counter[Code] = Counter()
    for line in lines:
        kind, *fields = line.split()
        if kind == "section":
            current = sections.setdefault(int(fields[0]), Section()).runs
        elif kind == "block":
            blocks[fields[0]] = _instructions(int(fields[1], 16), fields[2])
        elif kind == "runs":
            runs = int(fields[1])
            for code in blocks[fields[0]]:
                current[code] += runs
    return sections


def _instructions(address: int, text: str) -> list[Code]:
    found = []
    for code in text.rstrip(".").split("."):
        found.append((address, code))
        address += len(code) // 2
    return found
