"""MetaSchedule's own rules on our tensor expression, measured like any other candidate."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tuning.examples import DEPTHWISE, POINTWISE, V3
from tvmconv.tuning import auto
from tvmconv.tuning.compare import tune_auto
from tvmconv.tuning.journal import Journal
from tvmconv.tuning.logfile import read_log
from tvmconv.tuning.measure import Final
from tvmconv.tuning.settings import Settings
from tvmconv.tuning.space import refusal

SETTINGS = Settings(trials=4, final=Final(rounds=4, seconds=1e-3))


def provenance():
    return {"versions": {}, "date": "2026-11-21"}


@pytest.mark.slow
@pytest.mark.parametrize("workload", [POINTWISE, DEPTHWISE], ids=str)
def test_the_result_is_verified_and_never_used_by_a_build(workload, tmp_path):
    log = tmp_path / "a.jsonl"
    journal = Journal(log, {})
    outcome = tune_auto(workload, V3, SETTINGS, log, journal, provenance)
    assert outcome.status in ("recorded", "no gain")
    assert outcome.trials > 0
    assert outcome.default_seconds > 0
    if log.exists():
        assert "knob space" in refusal(read_log(log).records[0])
    again = tune_auto(workload, V3, SETTINGS, log, journal, provenance)
    assert again.status == "done before"


def test_what_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(auto, "run", lambda *a: {"failed": "hung"})
    journal = Journal(tmp_path / "a.jsonl", {})
    outcome = tune_auto(POINTWISE, V3, SETTINGS, tmp_path / "a.jsonl", journal, provenance)
    assert outcome.status == "hung"
    assert not journal.finished(str(POINTWISE), {**SETTINGS.to_json(), "space": "auto"})


def test_a_wrong_result_is_not_logged(tmp_path, monkeypatch):
    check = {"status": "correct", "error": 1e-7, "limit": 1e-5}
    wrong = {**check, "status": "wrong", "error": 0.5}
    answer = {"checks": [check, wrong], "samples": [[2e-4] * 4, []], "trials": 4}
    monkeypatch.setattr(auto, "run", lambda *a: answer)
    journal = Journal(tmp_path / "a.jsonl", {})
    settings = replace(SETTINGS, seed=1)
    outcome = tune_auto(POINTWISE, V3, settings, tmp_path / "a.jsonl", journal, provenance)
    assert outcome.status == "wrong result"
    assert not (tmp_path / "a.jsonl").exists()
