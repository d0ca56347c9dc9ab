"""``tvmconv.tune``: limits, progress, resumption, and a log that a build takes."""

from __future__ import annotations

import math

import pytest

import tvmconv
from tests.small_network import small_network
from tests.tuning.examples import V3, Instant, best_config
from tvmconv.core.errors import ConfigError, TvmconvError
from tvmconv.records.logfile import read_log
from tvmconv.tuning import model_tuning

OPTIONS = {"threads": 1, "algorithms": ["direct", "direct_first", "depthwise", "im2col"], "seed": 1}


@pytest.fixture
def instant(monkeypatch):
    monkeypatch.setattr(model_tuning, "make_measurer", lambda *_: Instant())


class Stop(Exception):
    """Raised by a user's function."""


def test_a_search_is_shown_stopped_and_continued(instant, tmp_path):
    log, model = tmp_path / "mine.jsonl", small_network()
    seen: list[tuple[str, int, int]] = []

    def stop(*state):
        seen.append(state)
        if len(seen) == 5:
            raise Stop

    limits = {"trials": 20, "log": log, **OPTIONS}
    with pytest.raises(Stop):
        tvmconv.tune(model, V3, progress=stop, **limits)
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert 0 < seen[-1][1] < seen[-1][2]
    again: list[tuple[str, int, int]] = []
    report = tvmconv.tune(model, V3, progress=lambda *s: again.append(s), **limits)
    layers = report.to_json()["workloads"]
    fresh = sum(row["trials"] - row["remembered"] for row in layers)
    assert 0 < fresh <= 20 - seen[-1][1]
    assert again[-1][1] == again[-1][2]
    assert len({name for name, _, _ in again}) == len(layers) > 1
    records = read_log(log).records
    assert report.to_json()["records"] > 0
    configs = {r.config for r in records}
    assert configs
    for r in records:
        assert best_config(r.workload, V3, r.algorithm, [log]).config in configs


def test_fewer_trials_than_layers_are_a_limit(instant, tmp_path):
    seen: list[tuple[str, int, int]] = []
    limits = {"trials": 2, "log": tmp_path / "a.jsonl", **OPTIONS}
    report = tvmconv.tune(small_network(), V3, progress=lambda *s: seen.append(s), **limits)
    assert {total for _, _, total in seen} == {2}
    assert len(report.to_json()["workloads"]) == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"search": "all"}, "search='all' is unknown"),
        ({"trials": -1}, "trials"),
        ({"trials": 1.5}, "trials=1.5"),
        ({"time_budget": math.nan}, "time_budget=nan"),
        ({"time_budget": "10"}, "time_budget='10'"),
        ({"early_stop": -1}, "early_stop"),
        ({"seed": "a"}, "seed='a'"),
        ({"threads": 0}, "threads"),
        ({"rpc_tracker": 9190, "rpc_keys": ["a"]}, "rpc_tracker=9190"),
        ({"rpc_tracker": "lab:9190", "rpc_keys": 3}, "rpc_keys=3"),
        ({"algorithms": "direct,im2col"}, "'direct,im2col' is unknown"),
        ({"algorithms": 3}, "algorithms=3"),
        ({"error_budget": -1}, "error_budget"),
        ({"precision": "half"}, "precision"),
        ({"requantize": "both"}, "requantize"),
        ({"log": 3}, "log=3"),
        ({"log": "/dev/null/a.jsonl"}, "not a writable folder"),
        ({"search": ["knobs"]}, "search="),
        ({"trials_per_layer": 0}, "trials_per_layer"),
        ({"time_budget": 0}, "time_budget"),
        ({"rpc_keys": ["a"]}, "require each other"),
        ({"algorithms": ["fast"]}, "'fast' is unknown"),
        ({"progress": 3}, "progress"),
        ({"log": "none"}, "means no log"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, dict) else "",
)
def test_wrong_arguments_are_named(options, text):
    with pytest.raises(TvmconvError, match=text):
        tvmconv.tune("model.onnx", V3, **options)


@pytest.mark.parametrize(
    ("target", "text"),
    [(["native", "x86-64-v3"], "one target"), ("z80", "'z80'"), (3, "type of target 3")],
)
def test_a_search_has_one_target(target, text):
    with pytest.raises(TvmconvError, match=text):
        tvmconv.tune("model.onnx", target)


@pytest.mark.parametrize("budget", [-1, "64MiB", 1.5, True])
def test_a_folding_budget_is_whole(budget, tmp_path):
    with pytest.raises(ConfigError, match="fold_budget"):
        tvmconv.tune(small_network(), V3, fold_budget=budget, log=tmp_path / "a.jsonl")


def test_one_algorithm_by_name_leaves_the_other_layers_out(instant, tmp_path):
    limits = {"trials": 4, "log": tmp_path / "a.jsonl", "threads": 1}
    report = tvmconv.tune(small_network(), V3, algorithms="depthwise", **limits)
    workloads = [row["workload"] for row in report.to_json()["workloads"]]
    assert workloads and all(text.startswith("g") for text in workloads)
    assert any("not tuned" in note for note in report.notes)
    with pytest.raises(ConfigError, match="compute none of the"):
        tvmconv.tune(small_network(), V3, algorithms=["strassen"], error_budget=0, **limits)


def test_traces_are_for_cpus():
    with pytest.raises(ConfigError, match="CPU target"):
        tvmconv.tune("model.onnx", "cuda:sm_90", search="both")
