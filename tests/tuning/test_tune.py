"""Tuning from end to end: records that builds can use, resumption, killed runs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import psutil
import pytest

from tests.cli.verbs import data_of
from tests.tuning.examples import DENSE, DEPTHWISE, POINTWISE, SMALL, V3, Instant
from tvmconv.records.logfile import read_log
from tvmconv.records.space import refusal
from tvmconv.tuning.journal import Journal, Trial
from tvmconv.tuning.measure import Final, LocalMeasurer
from tvmconv.tuning.pool import Pool
from tvmconv.tuning.results import MeasuredChoice
from tvmconv.tuning.session import Task, collect, tune
from tvmconv.tuning.settings import Outcome, Settings
from tvmconv.tuning.tuner import WorkloadTuner

ALGORITHMS = ("direct", "depthwise")
QUICK = Settings(trials=4, batch=2, algorithms=ALGORITHMS, final=Final(rounds=8, seconds=1e-3))
TASKS = (Task("pointwise", POINTWISE), Task("depthwise", DEPTHWISE))


@pytest.fixture(scope="module")
def measurer():
    with Pool(workers=2) as one:
        yield LocalMeasurer(one)


def test_two_layers_from_end_to_end_and_again(tmp_path, measurer):
    log, seen = tmp_path / "a.jsonl", []
    outcomes = tune(TASKS, V3, measurer, log, QUICK, observe=seen.append)
    assert {o.workload for o in outcomes} == {POINTWISE, DEPTHWISE}
    assert all(0 < o.trials <= 4 for o in outcomes)
    assert all(o.status in ("recorded", "no gain") for o in outcomes)
    assert len(seen) >= sum(o.trials for o in outcomes)
    if log.exists():
        for record in read_log(log).records:
            assert not refusal(record)
            assert record.verification["error"] <= record.verification["limit"]
            assert record.device["cpu"]
            assert record.versions["TVM"].startswith("0.27")
    again = tune(TASKS, V3, measurer, log, QUICK)
    assert [o.status for o in again] == ["done before"] * 2


def test_a_run_goes_on_from_the_trials_of_one_that_was_cut(tmp_path, measurer):
    log = tmp_path / "a.jsonl"

    class Cut(Exception):
        pass

    def cut(progress):
        if progress.outcome.trials == 2:
            raise Cut

    with pytest.raises(Cut):
        tune(TASKS[:1], V3, measurer, log, QUICK, observe=cut)
    (outcome,) = tune(TASKS[:1], V3, measurer, log, QUICK)
    assert outcome.trials == 4
    assert outcome.remembered == 2
    lines = [json.loads(line) for line in log.with_suffix(".trials").read_text().splitlines()]
    configs = [json.dumps(line["config"]) for line in lines if "config" in line]
    assert len(configs) == len(set(configs)) == 4


def test_time_budget_ends_a_run_but_keeps_it_open(tmp_path):
    log = tmp_path / "a.jsonl"
    tune(TASKS[:1], V3, Instant(), log, QUICK, time_budget=1e-3)
    (outcome,) = tune(TASKS[:1], V3, Instant(), log, QUICK)
    assert outcome.status != "done before"
    assert outcome.trials == 4


def test_a_time_budget_is_shared_by_what_layers_take(tmp_path, monkeypatch):
    given = {}

    def run(tuner, deadline, observe):
        given[tuner.workload] = deadline - time.monotonic()
        return Outcome(tuner.workload)

    monkeypatch.setattr(WorkloadTuner, "run", run)
    tasks = (Task("small", POINTWISE), Task("large", DENSE, count=1000))
    tune(tasks, V3, Instant(), tmp_path / "a.jsonl", QUICK, time_budget=100.0)
    # nothing was used: the last may have all that is left
    assert 90 < given[DENSE] < 100 < given[POINTWISE] + 1
    tune(tasks, V3, Instant(), tmp_path / "a.jsonl", QUICK)
    assert set(given.values()) == {math.inf}


def proposals(log, seed, cut=None):
    """The measurements of a run, in order; ``cut`` ends it after so many trials."""

    def observe(progress):
        if progress.outcome.trials == cut:
            raise KeyboardInterrupt

    settings = Settings(trials=24, batch=8, seed=seed)
    with contextlib.suppress(KeyboardInterrupt):
        tune([Task("dense", DENSE)], V3, Instant(), log, settings, observe=observe)
    lines = [json.loads(line) for line in log.with_suffix(".trials").read_text().splitlines()]
    return [(line["algorithm"], str(line["config"])) for line in lines if "algorithm" in line]


def test_same_seed_same_proposals_cut_or_not(tmp_path):
    first = proposals(tmp_path / "first.jsonl", 3)
    assert len(first) == 24
    assert proposals(tmp_path / "second.jsonl", 3) == first
    assert proposals(tmp_path / "cut.jsonl", 3, cut=11) == first[:11]
    assert proposals(tmp_path / "cut.jsonl", 3) == first
    assert proposals(tmp_path / "other.jsonl", 4) != first


def test_journal_passes_over_broken_and_foreign_lines(tmp_path):
    log = tmp_path / "a.jsonl"
    journal = Journal(log, {"machine": 1})
    (config,) = {t.config for t in _one_trial(journal)}
    with journal.path.open("ab") as file:
        file.write(b'{"v":1}\n[]\nnull\n\xff\n{"v":1,"workload":')
    assert set(Journal(log, {"machine": 1}).trials(str(SMALL))) == {("direct", config)}
    assert not Journal(log, {"machine": 2}).trials(str(SMALL))


def _one_trial(journal):
    from tests.tuning.examples import default

    trials = [Trial("direct", default(SMALL, V3), "timed", 1e-4, 1e-7)]
    journal.add(str(SMALL), trials)
    return trials


def test_trials_are_shared_and_end_where_nothing_improves(tmp_path):
    settings = Settings(trials=64, batch=4, algorithms=ALGORITHMS)
    outcomes = tune(TASKS, V3, Instant(), tmp_path / "a.jsonl", settings, total_trials=12)
    assert [o.trials for o in outcomes] == [6, 6]

    class Flat(Instant):
        @staticmethod
        def seconds(config):
            return 1e-4

    settings = replace(settings, early_stop=8)
    (outcome,) = tune(TASKS[:1], V3, Flat(), tmp_path / "b.jsonl", settings)
    assert outcome.trials == 12
    assert outcome.status == "no gain"


def test_suites_and_layers_give_each_workload_once(tmp_path):
    suite = tmp_path / "mine.txt"
    suite.write_text(f'{SMALL} n"a*2"\n{DEPTHWISE} n"b"\n')
    tasks = collect(V3, suites=[str(suite)], layers=[str(SMALL)])
    assert [(t.name, t.count) for t in tasks] == [("a", 3), ("b", 1)]


COMMAND = [
    sys.executable,
    "-m",
    "tvmconv",
    "tune",
    "--target",
    "x86-64-v3",
    "--threads",
    "1",
    "--algorithms",
    ",".join(ALGORITHMS),
]


def wait(moment, journal, run):
    """For a time in seconds, or, where it is a whole number, for so many trials or the end."""
    if isinstance(moment, float):
        time.sleep(moment)
        return
    while run.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") >= moment:
            return
        time.sleep(0.05)


def size(path):
    return path.stat().st_size if path.exists() else 0


def stop(run, how, begun):
    """Interrupt a run as a terminal does, or kill it; nothing may be left of it."""
    children = psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []
    before = run.poll()
    if how == signal.SIGINT:
        os.killpg(run.pid, signal.SIGINT)
    else:
        run.kill()
    _, told = run.communicate(timeout=300)
    _, alive = psutil.wait_procs(children, timeout=120)
    assert not alive
    if how == signal.SIGINT and before is None and begun:
        assert run.returncode == 130
        assert "The same command continues from there." in told


def stop_and_resume(tmp_path, stops, trials, layers=(POINTWISE, DEPTHWISE)):
    """Stop a run at each moment; every finished line stays, and the last run completes."""
    log = tmp_path / "k.jsonl"
    command = [*COMMAND, "--tuning-log", str(log), "--trials-per-layer", str(trials)]
    for layer in layers:
        command += ["--layer", str(layer)]
    journal = log.with_suffix(".trials")
    before: list[str] = []
    for moment, how in stops:
        run = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        old = size(journal)
        wait(moment, journal, run)
        stop(run, how, begun=size(journal) > old)
        lines = journal.read_text().splitlines() if journal.exists() else []
        assert lines[: len(before)] == before
        whole = log.read_text().splitlines() if log.exists() else []
        assert not (log.exists() and read_log(log).skipped[:-1])
        before = lines if not lines or lines[-1].endswith("}") else lines[:-1]
        assert len(whole) <= 4
    report = data_of(*command[3:])
    assert {row["status"] for row in report["workloads"]} <= {
        "recorded",
        "no gain",
        "done before",
    }
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    assert sum("finished" in entry for entry in entries) == len(layers)
    keys = [json.dumps([e["workload"], e["config"]]) for e in entries if "config" in e]
    assert len(keys) == len(set(keys))


@pytest.fixture
def heard():
    """Processes started here hear interrupts, which processes of a background shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.any_processor
@pytest.mark.usefixtures("heard")
def test_stopped_runs_lose_nothing_and_go_on(tmp_path):
    stops = [(2, signal.SIGINT), (4, signal.SIGKILL)]
    stop_and_resume(tmp_path, stops, trials=5, layers=[POINTWISE])


@pytest.mark.slow
@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=["kill", "interrupt"])
def test_twenty_stops_at_random_moments(tmp_path, how):
    generator = random.Random(0)
    stops = [(generator.uniform(0.5, 7), how) for _ in range(20)]
    stop_and_resume(tmp_path, stops, trials=150)


class Lucky(Instant):
    """The default takes longer than all else in each measurement that counts."""

    def __init__(self, luck):
        self.luck = list(luck)

    def interleaved(self, workload, machine, choices, final):
        if final.rounds < SETTLED.final.rounds:
            return super().interleaved(workload, machine, choices, final)
        low, high = self.luck.pop(0)
        # a third of the rounds show the low ratio, the others the high one
        turns = [(low if turn % 3 == 0 else high) * 1e-4 for turn in range(final.rounds)]
        return [
            MeasuredChoice(a, c, tuple(turns if number == 0 else [1e-4] * final.rounds), 1e-7, 1e-5)
            for number, (a, c) in enumerate(choices)
        ]


SETTLED = Settings(trials=6, batch=3, algorithms=("direct",))


@pytest.mark.parametrize(
    ("luck", "status", "speedup"),
    [
        ([(1.5, 1.5), (1.0, 1.0)], "no gain", 1.0),
        ([(1.5, 1.5), (1.2, 1.2)], "recorded", 1.2),
        # too few rounds for a bound above 1, but twice as many will tell
        ([(1.0, 1.2), (1.0, 1.2)], "recorded", 1.2),
        ([(1.0, 1.2), (1.2, 1.0)], "no gain", 1.0),
        ([(1.0, 1.0)], "no gain", 1.0),
    ],
)
def test_a_gain_must_show_again_in_new_processes(tmp_path, luck, status, speedup):
    log, measurer = tmp_path / "a.jsonl", Lucky(luck)
    (outcome,) = tune([Task("dense", DENSE)], V3, measurer, log, SETTLED)
    assert (outcome.status, measurer.luck) == (status, [])
    assert outcome.speedup == pytest.approx(speedup)
    records = read_log(log).records if log.exists() else ()
    assert [record.speedup for record in records] == ([speedup] if status == "recorded" else [])
