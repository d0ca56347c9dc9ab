"""Damaged and hostile tuning logs: refused line by line, never a config out of range."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from tests.fuzz.json_mutations import mutated_text
from tests.fuzz.runner import Note, Wrong
from tests.tuning.examples import DENSE, DEPTHWISE, SMALL, V3, V4, record
from tvmconv.kernels import registry
from tvmconv.records.logfile import read_log
from tvmconv.records.lookup import tuned
from tvmconv.records.space import make_space, record_machine, refusal

_LINES = 20
_RECORDS = (record(), record(SMALL, V3), record(DEPTHWISE, V4, "depthwise"))


def mutant(generator: random.Random) -> bytes:
    """One changed line."""
    data = json.loads(generator.choice(_RECORDS).to_line())
    return mutated_text(data, generator).replace(b"\n", b" ")


def check(path: Path) -> tuple[int, int]:
    """Read a log; returns how many records may be used, and how many lines were skipped.

    Raises
    ------
    Wrong
        If a record that may be used has a knob that its schedule does not offer.
    """
    log = read_log(path, warn=False)
    accepted = 0
    for entry in log.records:
        entry.to_line()
        if refusal(entry):
            continue
        accepted += 1
        machine = record_machine(entry.machine)
        values = make_space(entry.workload, machine, entry.algorithm).values
        config = registry.knobs(entry.algorithm, machine).complete(entry.config)
        registry.check(entry.algorithm, entry.workload, machine, config)
        if set(config) != set(values):
            raise Wrong(f"knobs {set(config)} accepted, the schedule has {set(values)}")
        for name, allowed in values.items():
            setting = config[name]
            inside = (
                min(allowed) <= setting <= max(allowed)
                if type(setting) is int
                else setting in allowed
            )
            if type(setting) not in {type(value) for value in allowed} or not inside:
                raise Wrong(f"{name}={setting!r} accepted, allowed are {allowed}")
    return accepted, len(log.skipped)


class Logs:
    """Logs of some mutated lines: read, checked, and looked up in."""

    batch = 1000

    def make(self, generator: random.Random) -> bytes:
        return b"\n".join(mutant(generator) for _ in range(_LINES)) + b"\n"

    def files(self, case: bytes) -> dict[str, bytes]:
        return {"log.jsonl": case}

    def judge(self, case: bytes, note: Note) -> bool:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.jsonl"
            path.write_bytes(case)
            accepted, skipped = check(path)
            if accepted + skipped > _LINES:
                raise Wrong(f"{accepted} records and {skipped} skipped of {_LINES} lines")
            tuned(DENSE, V4, "direct", [path])
        return True
