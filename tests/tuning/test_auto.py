"""MetaSchedule's own rules on our tensor expression, measured like any other candidate."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from tests.tuning.examples import DEPTHWISE, POINTWISE, V3, Instant, record, traced
from tvmconv.records.logfile import append, read_log
from tvmconv.records.space import refusal
from tvmconv.tuning import auto
from tvmconv.tuning.compare import compare_spaces, tune_auto
from tvmconv.tuning.default_choice import untuned_choice
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.measure import Final, LocalMeasurer
from tvmconv.tuning.pool import Failure, Pool
from tvmconv.tuning.reports import tune_report
from tvmconv.tuning.session import Task, tune
from tvmconv.tuning.settings import Settings

SETTINGS = Settings(trials=4, final=Final(rounds=4, seconds=1e-3))


def provenance():
    return {"versions": {}, "date": "2026-11-21"}


@pytest.mark.slow
@pytest.mark.parametrize("workload", [POINTWISE, DEPTHWISE], ids=str)
def test_the_result_is_verified_and_fit_for_builds(workload, tmp_path):
    log = tmp_path / "a.jsonl"
    journal = Journal(log, {})
    with Pool() as pool:
        measurer = LocalMeasurer(pool)
        outcome = tune_auto(workload, V3, measurer, SETTINGS, log, journal, provenance)
        assert outcome.status in ("recorded", "no gain")
        assert not outcome.failures
        assert outcome.trials > 0
        assert outcome.default_seconds > 0
        if log.exists():
            assert not refusal(read_log(log).records[0])
        again = tune_auto(workload, V3, measurer, SETTINGS, log, journal, provenance)
        assert again.status == "done before"


def test_failures_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(auto, "run", lambda *a, **k: {"failed": "hung"})
    log = tmp_path / "a.jsonl"
    journal = Journal(log, {})
    outcome = tune_auto(POINTWISE, V3, Instant(), SETTINGS, log, journal, provenance)
    assert outcome.status == "hung"
    assert not journal.finished(str(POINTWISE), {**SETTINGS.to_json(), "space": "auto"})


def test_a_time_budget_gives_metaschedule_up(tmp_path):
    log = tmp_path / "a.jsonl"
    journal = Journal(log, {})
    arguments = (V3, Instant(), SETTINGS, log, journal, provenance, time.monotonic())
    outcome = tune_auto(POINTWISE, *arguments)
    assert outcome.status == "out of time"
    assert not journal.finished(str(POINTWISE), SETTINGS.to_json("auto"))


class Wrong(Instant):
    """A measurer to which traced kernels compute wrong results."""

    def interleaved(self, workload, machine, choices, final):
        measured = super().interleaved(workload, machine, choices, final)
        return [Failure("wrong", "") if m.config.trace else m for m in measured]


def test_a_wrong_result_is_not_logged(tmp_path, monkeypatch):
    answer = {"traces": [traced().config.trace], "trials": 4}
    monkeypatch.setattr(auto, "run", lambda *a, **k: answer)
    log = tmp_path / "a.jsonl"
    journal = Journal(log, {})
    settings = replace(SETTINGS, seed=1)
    outcome = tune_auto(POINTWISE, V3, Wrong(), settings, log, journal, provenance)
    assert (outcome.status, outcome.failures["wrong"]) == ("not measured", 1)
    assert not log.exists()


class Slower(Instant):
    """A measurer to which traced kernels take three times as long as all others."""

    @staticmethod
    def seconds(config):
        return 3e-4 if config.trace else Instant.seconds(config)


ANSWER = {
    "traces": [traced().config.trace],
    "trials": 5,
    "seconds": [math.inf, 9e-4, 3e-4, 4e-4, 2e-4, 8e-4],
}


class Scripted:
    """MetaSchedule's process replaced by answers; exceptions are raised."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def __call__(self, *arguments, **options):
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def both(log, **options):
    settings = Settings(trials=6, batch=3, algorithms=("direct",))
    tasks = [Task("point", POINTWISE)]
    (outcome,) = tune(tasks, V3, Slower(), log, settings, space="both", **options)
    return outcome, tune_report(tasks, [outcome], log, 1.0)


def test_both_spaces_are_compared_and_go_on_after_a_stop(tmp_path, monkeypatch):
    log = tmp_path / "a.jsonl"
    process = Scripted(KeyboardInterrupt(), {"failed": "hung"}, ANSWER)
    monkeypatch.setattr(auto, "run", process)
    with pytest.raises(KeyboardInterrupt):
        both(log)
    (winner,) = read_log(log).records
    outcome, report = both(log)
    assert (outcome.status, outcome.comparison.failed) == ("done before", "hung")
    assert "hung" in str(report)
    for _ in range(2):
        outcome, report = both(log)
        found = outcome.comparison
        assert found.ratio == found.lower_bound > 3
        assert found.auto_seconds == pytest.approx(3e-4)
        assert (found.knobs_trials, found.auto_trials) == (6, 5)
        assert str(winner.config) in found.knobs
        (row,) = report.to_json()["spaces"]
        assert row["auto_progress"] == [[2, 0.9], [3, pytest.approx(0.3)], [5, 0.2]]
        assert row["knobs_progress"][-1][1] == pytest.approx(1e3 * found.knobs_seconds)
        assert row["knobs_progress"][0][0] == 1
        shown = str(report)
        assert all(word in shown for word in ("Knobs compared with auto", "0.3000", "point"))
        assert report.to_json()["geometric_mean_over_auto"] == pytest.approx(found.ratio)
    # the last run took the result from the journal
    assert not process.answers
    assert len(read_log(log).records) == 1


def test_a_record_of_a_longer_search_is_not_compared(tmp_path, monkeypatch):
    log = tmp_path / "a.jsonl"
    longer = record(POINTWISE, V3, knobs={"ow": 5}, seconds=1e-6)
    append(log, [longer.to_line()])
    monkeypatch.setattr(auto, "run", Scripted(ANSWER))
    outcome, _ = both(log)
    assert str(longer.config) not in outcome.comparison.knobs


def test_a_default_without_a_record_is_measured_once(tmp_path, monkeypatch):
    monkeypatch.setattr(auto, "run", Scripted(ANSWER))
    choice = untuned_choice(POINTWISE, V3)
    measured = []

    class Counted(Slower):
        def interleaved(self, workload, machine, choices, final):
            measured.append(choices)
            return super().interleaved(workload, machine, choices, final)

    log = tmp_path / "a.jsonl"
    found = compare_spaces(POINTWISE, V3, Counted(), SETTINGS, log, Journal(log, {}))
    assert found.knobs == found.default
    assert found.knobs_seconds == found.default_seconds
    ((first, traced_choice),) = measured
    assert (first, bool(traced_choice[1].trace)) == (choice, True)


@pytest.mark.slow
def test_a_stop_while_metaschedule_searches_ends_all_processes(tmp_path):
    log = tmp_path / "a.jsonl"
    command = [sys.executable, "-m", "tvmconv", "tune", "--layer", str(POINTWISE)]
    command += ["--search", "both", "--algorithms", "direct", "--trials-per-layer", "4"]
    command += ["--target", "x86-64-v3", "--threads", "1", "--tuning-log", str(log), "--json"]
    for stop in (signal.SIGINT, signal.SIGKILL):
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process = psutil.Process(run.pid)
        deadline = time.monotonic() + 120
        while not any("tvmconv.tuning.auto" in child.cmdline() for child in process.children()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(6)
        children = process.children(recursive=True)
        run.send_signal(stop)
        assert run.wait(60) == (130 if stop is signal.SIGINT else -signal.SIGKILL)
        _, alive = psutil.wait_procs(children, timeout=60)
        assert not alive
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    (row,) = json.loads(done.stdout)["spaces"]
    assert row["ratio"] > 0
    assert row["auto_trials"] > 0
