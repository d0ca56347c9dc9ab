"""The logs that come with the package."""

from __future__ import annotations

import pytest

from tvmconv.records.logfile import read_log
from tvmconv.records.lookup import shipped_folder
from tvmconv.records.space import refusal

# the gain over the default that a shipped record is worth
MINIMUM = 1.03
ISAS = {"x86-64-v3": "avx2", "x86-64-v4": "avx512"}
LOGS = sorted(shipped_folder().glob("*.jsonl"))


def test_there_are_some():
    assert LOGS


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_line_can_be_used(path):
    log = read_log(path)
    assert not log.skipped
    assert log.records
    for record in log.records:
        assert not refusal(record)
        assert record.speedup >= MINIMUM
        assert float(record.verification["error"]) <= float(record.verification["limit"])
        assert record.machine["isa"] == ISAS[path.stem]
        assert record.estimated == path.stem.endswith(".estimated")
