"""Damaged and hostile logs: refused line by line, never a crash, never a config out of range."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.logs import check, mutant
from tvmconv.core.errors import TvmconvError
from tvmconv.records.logfile import read_log


def _check(path, count, seed):
    generator = random.Random(seed)
    path.write_bytes(b"\n".join(mutant(generator) for _ in range(count)) + b"\n")
    accepted, skipped = check(path)
    assert accepted + skipped <= count
    return accepted, skipped


def test_mutated_logs_are_at_worst_refused(tmp_path):
    accepted, skipped = _check(tmp_path / "a.jsonl", 500, 1)
    assert accepted > 20
    assert skipped > 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_ten_thousand_mutations(tmp_path, seed):
    _check(tmp_path / "a.jsonl", 1000, 100 + seed)


def test_many_bad_lines_are_reported_in_few_messages(tmp_path, caplog):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{bad}\n" * 20_000)
    assert len(read_log(path).skipped) == 20_000
    assert len(caplog.messages) < 50
    assert "more lines skipped" in caplog.messages[-1]


def test_a_file_of_line_ends_is_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n" * 5_000_000)
    with pytest.raises(TvmconvError, match="lines; split it"):
        read_log(path)
