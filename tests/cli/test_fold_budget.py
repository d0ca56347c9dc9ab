"""``--fold-budget`` reaches the reader from every subcommand that reads a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.cli.verbs import invoke
from tests.frontend.onnx_runner import make_model, noise
from tvmconv.lab.bench.implementations import implementations
from tvmconv.lab.bench.plan import make_plan


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose weight, of 9 KiB, is computed from constants."""
    nodes = [
        helper.make_node("Mul", ["w", "scale"], ["scaled"], "standardise"),
        helper.make_node("Conv", ["x", "scaled"], ["y"], "conv1"),
    ]
    constants = {"w": noise(16, 16, 3, 3), "scale": np.full((16, 1, 1, 1), 0.5, np.float32)}
    path = tmp_path_factory.mktemp("folding") / "net.onnx"
    onnx.save(make_model(nodes, {"x": (1, 16, 8, 8)}, ["y"], constants), path)
    return path


VERBS = {
    "compile": ("-o", "net.so"),
    "explain": (),
    "tune": ("--tuning-log", "net.jsonl", "--trials", 1),
    "bench run": ("--baselines", "none", "--rounds", 1, "--seconds", 0.001),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_small_budget_refuses_the_model(
    verb: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = invoke(*verb.split(), model, *VERBS[verb], "--fold-budget", "9215")
    assert refused.exit_code == 1
    assert "'standardise'" in refused.stderr
    assert "at most 9215 are allowed" in refused.stderr


@pytest.mark.parametrize("verb", VERBS)
def test_a_budget_that_is_no_size(
    verb: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    refused = invoke(*verb.split(), model, *VERBS[verb], "--fold-budget", "much")
    assert refused.exit_code == 1
    assert "--fold-budget 'much'" in refused.stderr


def test_builds_in_a_bench_take_the_budget(model: Path) -> None:
    plan = make_plan(models=[model], baselines="none", fold_budget=12345)
    (own,) = [c for c in implementations(plan, "models") if c.label == "tvmconv"]
    assert dict(own.options)["fold_budget"] == 12345
