"""The display of a run: best against the default and the best library, trials and time left."""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.tuning.examples import POINTWISE, SMALL, V3, Instant
from tvmconv.cli.live import Live, duration, line
from tvmconv.lab.bench.baseline_times import BaselineTimes
from tvmconv.tuning.reports import tune_report
from tvmconv.tuning.session import Progress, Task, tune
from tvmconv.tuning.settings import Outcome, Settings

TASKS = (Task("small", SMALL), Task("pointwise", POINTWISE))
SETTINGS = Settings(trials=6, batch=3, algorithms=("direct",))


class Peers:
    def best(self, workload):
        return "fast", 5e-5


def run(tmp_path, **options):
    seen = []

    def observe(progress):
        # the outcome goes on changing
        seen.append(replace(progress, outcome=replace(progress.outcome)))

    log = tmp_path / "a.jsonl"
    return tune(TASKS, V3, Instant(), log, SETTINGS, observe=observe, **options), seen


def test_progress_tells_what_is_left(tmp_path):
    outcomes, seen = run(tmp_path, baselines=Peers())
    assert [o.done for o in outcomes] == [True, True]
    lefts = [p.trials_left for p in seen]
    assert lefts[0] > lefts[-1] == 0
    assert seen[-1].seconds_left == 0
    assert [p.number for p in seen if p.outcome.done] == [0, 1]
    for outcome in outcomes:
        assert (outcome.baseline, outcome.baseline_seconds) == ("fast", 5e-5)
        assert outcome.over_baseline == 5e-5 / outcome.best_seconds
    report = tune_report(TASKS, outcomes, tmp_path / "a.jsonl", 1.0, {"slow": "absent"})
    data = report.to_json()
    assert {row["baseline"] for row in data["workloads"]} == {"fast"}
    assert {row["outliers"] for row in data["workloads"]} == {"0/18"}
    assert data["geometric_mean_over_best_baseline"] > 0
    assert "best baseline" in str(report)
    assert "slow not measured" in data["notes"][0]


def test_a_time_budget_bounds_the_time_left(tmp_path):
    _, seen = run(tmp_path, time_budget=7.0)
    assert all(p.seconds_left <= 7 for p in seen)


PROGRESS = Progress(
    Task("conv", SMALL),
    0,
    3,
    64,
    Outcome(SMALL, trials=8, default="direct", default_seconds=2e-3, best="winograd",
            best_seconds=1e-3, baseline="onednn", baseline_seconds=1.5e-3),
    184,
    70.0,
)  # fmt: skip


def test_a_line_has_it_all():
    assert line(PROGRESS) == (
        "1/3 conv: trial 8/64, best 1 ms winograd, default 2 ms direct, 1.50 x onednn, "
        "184 trials left, 70 s"
    )
    spilled = Outcome(SMALL, failures=Counter(spilled=2, wrong=1))
    assert "trial 0/64, 2 spilled, 184 trials left" in line(replace(PROGRESS, outcome=spilled))
    missed, note = tune_report(TASKS, [spilled], Path("a.jsonl"), 1.0).notes
    assert missed == "not finished: 1 of 2 workloads"
    assert note.endswith("2 candidates")
    assert [duration(s) for s in (9, 720, 12240)] == ["9 s", "12 min", "3.4 h"]


def test_a_terminal_gets_one_line_and_no_thread(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    before = threading.active_count()
    with Live() as live:
        for _ in range(100):
            live(PROGRESS)
        assert threading.active_count() == before
    shown = capsys.readouterr().err
    assert shown.count("trial 8/64") < 10
    assert "\n" not in shown
    live(replace(PROGRESS, outcome=replace(PROGRESS.outcome, done=True)))
    assert capsys.readouterr().err.endswith("70 s\n")


def test_libraries_are_measured_and_failures_are_named():
    pythons = {"onnxruntime": sys.executable, "mnn": sys.executable}
    with BaselineTimes(["onnxruntime", "mnn"], pythons, 1, rounds=1, seconds=0.001) as baselines:
        name, seconds = baselines.best(SMALL)
    assert name in ("onnxruntime", "mnn")
    assert 0 < seconds < 1
    with BaselineTimes(["openvino"], {"openvino": "/bin/false"}, 1) as baselines:
        assert baselines.best(SMALL) == ("", math.inf)
    assert "openvino" in baselines.failures


def test_an_outcome_without_times_is_remembered_as_json():
    outcome = Outcome(SMALL, default="direct", best="direct", speedup=1.0, samples=3)
    known = json.loads(json.dumps(outcome.to_json(), allow_nan=False))
    again = Outcome(SMALL)
    again.recall(known)
    assert again == replace(outcome, status="done before", done=True)
