"""The cost model against the clock."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvmconv.lab.bench.check_model import check_model_report
from tvmconv.machines.targets import resolve_machine
from tvmconv.measuring.suites import parse_layer
from tvmconv.selection.policy import make_policy

LAYERS = [
    parse_layer('ic16ih5oc16kh3ph1+bias+relu n"a*2"'),
    parse_layer('ic3ih12oc16kh3ph1 n"first"'),
    parse_layer('ic16ih5oc16kh3ph1+bias+relu n"again"'),
]


def test_every_layer_once_with_all_its_candidates():
    lines: list[str] = []
    machine = resolve_machine("native", 1)
    report = check_model_report(LAYERS, machine, rounds=2, seconds=0.0, tell=lines.append)
    data = json.loads(json.dumps(report.to_json()))
    assert {row["layer"] for row in data["layers"]} == {"a", "first"}
    assert len(lines) == 2
    assert (data["predicted_at"], data["rates"]) == ("2.50 GHz, assumed", "shipped")
    for row in data["layers"]:
        measured = {c["candidate"]: c for c in data["candidates"] if c["layer"] == row["layer"]}
        assert row["picked"] in measured
        assert row["picked_seconds"] == measured[row["picked"]]["seconds"]
        least = min(c["seconds"] for c in measured.values())
        assert row["loss"] == pytest.approx(row["picked_seconds"] / least - 1)
        assert (row["fastest"] == "the same") == (row["loss"] == 0)
    losses = [row["loss"] for row in data["layers"]]
    assert losses == sorted(losses, reverse=True)
    assert data["worst_loss"] == losses[0]
    assert data["mean_loss"] == pytest.approx(sum(losses) / 2)


def test_only_what_the_policy_allows_is_measured():
    policy = make_policy(["direct", "direct_first"])
    report = check_model_report(
        LAYERS[:1], resolve_machine("native", 1), policy=policy, rounds=1, seconds=0.0
    )
    assert {row["algorithm"] for row in report.tables[1].rows} == {"direct"}
    assert report.facts["worst_loss"] == 0


def test_the_choice_of_another_record_is_measured_too():
    machine = resolve_machine("native", 1)
    # one whose memory is so slow that other tiles are predicted to win
    slow = replace(machine, rates=replace(machine.rates, l2=0.01, l3=0.01, memory=0.01))
    report = check_model_report(LAYERS[:1], machine, rounds=1, seconds=0.0, other=slow)
    for row in report.tables[0].rows:
        assert row["other_picked_seconds"] >= row["fastest_seconds"]
        assert row["other_loss"] == row["other_picked_seconds"] / row["fastest_seconds"] - 1
    assert report.facts["other_mean_loss"] >= 0
    same = check_model_report(LAYERS[1:2], machine, rounds=1, seconds=0.0, other=machine)
    assert same.facts["other_mean_loss"] == same.facts["mean_loss"]
    assert same.facts["other_cold_loss_of_total_time"] == same.facts["cold_loss_of_total_time"]
