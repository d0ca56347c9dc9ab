"""Calls of peers counted under emulation, for estimates beside those of our own code."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvmconv.bench.peers
from tvmconv.bench.emulated_python import EmulatedPython
from tvmconv.bench.lane import reason
from tvmconv.bench.peers import Peer
from tvmconv.bench.peers.case import EMULATOR
from tvmconv.bench.result import WRONG_ABOVE
from tvmconv.core.errors import ArtifactError
from tvmconv.estimation.counting import Section, count
from tvmconv.estimation.tools import counting_emulator
from tvmconv.machines.record import Machine

_PROGRAM = Path(tvmconv.bench.peers.__file__).with_name("counted.py")
_FIRST = 2
# dictionaries of strings are walked in another order otherwise, and counts differ
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True)
class PeerCount:
    """What one call of a peer executed.

    Parameters
    ----------
    status, message, version, error
        As of :class:`tvmconv.bench.result.Entry`.
    section
        The executed code without that of the Python interpreter; None where the status is not
        ``ok``.
    """

    status: str
    message: str = ""
    version: str = ""
    error: float | None = None
    section: Section | None = None


def count_peer(
    peer: Peer, python: EmulatedPython, folders: Sequence[Path], machine: Machine
) -> list[PeerCount]:
    """One call of a peer for each case, counted after its outputs were checked.

    Weights were packed before, as for timed calls; what the library does with a plain input in
    each call is counted.

    Parameters
    ----------
    peer
        The library.
    python
        An interpreter that has it.
    folders
        Cases with their references.
    machine
        What the library sees to be its processor.

    Raises
    ------
    ArtifactError
        If qemu or a compiler for its plugin is missing, or the program ended early.
    """
    with tempfile.TemporaryDirectory(prefix="tvmconv-") as name, python.on(machine) as options:
        result = Path(name) / "result"
        command: list[str | Path] = [python.path, _PROGRAM, peer.module, result, *folders]
        emulated = [*counting_emulator(machine.triple), *options]
        environment = {**_ENVIRONMENT, EMULATOR: " ".join(emulated)}
        try:
            sections = count(command, machine.triple, options=options, environment=environment)
        except ArtifactError as error:
            # a library without the interpreter's package counts nothing, and says so
            if not result.exists():
                raise
            sections, failure = {}, str(error)
        else:
            failure = "the program ended before it"
        head, *answers = [json.loads(line) for line in result.read_text().splitlines()]
    answers += [{"failure": failure}] * (len(folders) - len(answers))
    if "version" not in head:
        return [PeerCount("absent", reason(head))] * len(folders)
    spans = head["interpreter"]
    nothing = _library_code(sections.get(1, Section()), spans)
    return [
        _counted(
            answer, head["version"], _library_code(sections.get(index, Section()), spans) - nothing
        )
        for index, answer in enumerate(answers, _FIRST)
    ]


def _library_code(section: Section, interpreter: Sequence[Sequence[int]]) -> Section:
    """A section without what lies between the interpreter's addresses."""
    return Section(
        Counter(
            {
                (address, code): runs
                for (address, code), runs in section.runs.items()
                if not any(start <= address < end for start, end in interpreter)
            }
        )
    )


def _counted(answer: dict[str, Any], version: str, section: Section) -> PeerCount:
    if "error" not in answer:
        status = "unsupported" if "unsupported" in answer else "failed"
        return PeerCount(status, reason(answer), version)
    error = answer["error"]
    if error is None or not error <= WRONG_ABOVE:
        return PeerCount(
            "wrong", f"the outputs differ from the reference by {error}", version, error
        )
    return PeerCount("ok", "", version, error, section)
