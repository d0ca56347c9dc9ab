"""Ctrl-C in long commands: exit status 130, whole reports, and what was saved where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.verbs import data_of, invoke
from tests.tuning.examples import POINTWISE, SMALL, Instant
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.bench.result import BenchResult, CaseResult, Entry, read_saved
from tvmconv.tuning.journal import Trial
from tvmconv.tuning.pool import Pool


class Stopping(Instant):
    """Ctrl-C comes before the last trial."""

    left = 0

    def trials(self, *given: Any, **options: Any) -> Iterator[Trial]:
        for trial in super().trials(*given, **options):
            if not Stopping.left:
                raise KeyboardInterrupt
            Stopping.left -= 1
            yield trial


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[object, ...]:
    monkeypatch.setattr("tvmconv.tuning.remote.make_measurer", lambda *_: Stopping())
    monkeypatch.setattr(Pool, "launch", lambda _: None)
    layers = [word for w in (POINTWISE, SMALL) for word in ("--layer", str(w))]
    return ("tune", *layers, "--algorithms", "direct", "--trials-per-layer", 4, "--target",
            "x86-64-v3", "--threads", 1, "--tuning-log", tmp_path / "a.jsonl",
            "--report", tmp_path / "a.json")  # fmt: skip


@pytest.mark.parametrize("trials", [2, 6])
def test_tune_reports_finished_layers_and_continues(
    tuned: tuple[object, ...], tmp_path: Path, trials: int
) -> None:
    log, report = tmp_path / "a.jsonl", tmp_path / "a.json"
    Stopping.left = trials
    result = invoke(*tuned)
    finished = trials // 4
    assert result.exit_code == 130
    last = result.stderr.splitlines()[-1]
    when = "after 1 finished layer. " if finished else "before a layer was finished. "
    assert last.startswith(f"stopped {when}")
    assert f"{tmp_path / 'a.trials'} has all trials, and {log} the records." in last
    assert "The same command continues from there." in last
    assert report.exists() == (finished > 0)
    if not finished:
        assert f"{report} is written when a layer is finished." in last
    else:
        assert last.endswith(f"{report} has the finished layers.")
        cut = json.loads(report.read_text())
        assert cut["notes"] == ["not finished: 1 of 2 workloads"]
        # the larger layer comes first
        assert [row["workload"] for row in cut["workloads"]] == [str(SMALL)]
    Stopping.left = 99
    whole = data_of(*tuned)
    assert json.loads(report.read_text()) == whole
    assert whole["trials"] == 8 - trials
    assert {row["workload"] for row in whole["workloads"]} == {str(SMALL), str(POINTWISE)}
    if finished:
        before = next(row for row in whole["workloads"] if row["status"] == "done before")
        shown = ("algorithm", "default", "speedup", "lower_bound", "milliseconds", "outliers")
        assert [before[key] for key in shown] == [cut["workloads"][0][key] for key in shown]


def test_tune_that_stops_before_its_first_trial_saves_nothing(tuned: tuple[object, ...]) -> None:
    Stopping.left = 0
    result = invoke(*tuned)
    assert result.exit_code == 130
    last = result.stderr.splitlines()[-1]
    assert last == "stopped before the first trial. Nothing was saved."


@pytest.mark.parametrize("cases", [0, 1])
def test_bench_reports_finished_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: int
) -> None:
    entry = Entry("tvmconv", "ok", error=1e-7, operations=1000, rounds=[[1e-6, 2e-6]])
    case = CaseResult("a", "layer", str(Conv2dWorkload.parse("ic4ih5oc4kh3")), 9, 1, 1, (entry,))
    machine = {"cpu": "test", "date": "2026", "versions": {}, "load_average": [0, 0, 0]}

    def run(_plan: object, _tell: object, checkpoint: Any) -> BenchResult:
        checkpoint(BenchResult(machine, {"rounds": 2}, (case,) * cases))
        raise KeyboardInterrupt

    monkeypatch.setattr("tvmconv.lab.bench.measuring.run_plan", run)
    report, table = tmp_path / "a.json", tmp_path / "a.csv"
    words = ("bench", "run", "--layer", "ic4ih5oc4kh3", "--baselines", "none")
    result = invoke(*words, "--report", report, "--csv", table)
    assert result.exit_code == 130
    last = result.stderr.splitlines()[-1]
    has = f" {report} has them." if cases else ""
    plural = "" if cases == 1 else "s"
    assert last == (
        f"stopped after {cases} finished case{plural}.{has} "
        "The same command starts again from the first case."
    )
    assert len(read_saved(report).results) == cases
    assert table.exists() == ("tvmconv" in result.stdout) == (cases > 0)
    if cases:
        # with the tables that `bench show` would add
        assert json.loads(report.read_text())["measurements"]
