"""The script for the few minutes with a GPU: every phase is a bench that can be prepared."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from examples import gpu as script
from tests.cli.verbs import invoke
from tvmconv.bench.gpu import prepare
from tvmconv.report.document import Report


@pytest.mark.parametrize("small", [False, True], ids=["whole", "small"])
def test_every_phase_names_kernels_that_there_are(small, tmp_path, monkeypatch):
    (tmp_path / "small.txt").write_text(script._SMALL_SUITE)
    plans = []

    def compile_plan(plan, tell):
        plans.append(plan)
        return Report("bench-compiled", "", {}, ())

    monkeypatch.setattr(prepare, "compile_plan", compile_plan)
    found = list(script.phases(tmp_path, small, [], "cuda:sm_90"))
    for phase in found:
        words = script.command(phase, tmp_path, "cuda:sm_90", "--compile-only")
        result = invoke(*words[words.index("bench") :])
        assert result.exit_code == 0, result.stderr
    assert len({phase.name for phase in found}) == len(found) == len(plans)
    kernels = {
        phase.name: prepare.plan_kernels(plan) for phase, plan in zip(found, plans, strict=True)
    }
    forms = {(kernel.algorithm, kernel.config.get("mh")) for kernel in kernels["correct"]}
    assert {name for name, _ in forms} >= {"direct", "depthwise", "implicit_gemm", "winograd"}
    assert len(kernels["im2win-steps"]) > 5 * len({k.workload for k in kernels["im2win-steps"]})
    if not small:
        assert sum(phase.seconds for phase in found) <= 480
        assert len(kernels["resnet50-layers"]) == 69
        assert {kernel.workload.batch for kernel in kernels["dnn12"]} == {128}


def test_a_phase_is_ended_when_its_time_is_up():
    start = time.monotonic()
    words = [sys.executable, "-uc", "import time; print('one'); time.sleep(60)"]
    status, said = script.run(words, dict(os.environ), 3)
    assert time.monotonic() - start < 30
    assert status.startswith("ended")
    assert said == "one\n"
    assert script.run([sys.executable, "-c", "exit(3)"], dict(os.environ), 30)[0] == "failed (3)"


def test_what_there_is_no_time_for_is_told(tmp_path):
    code = script.measure(tmp_path, tmp_path / "results", False, [], "cuda:sm_90", total=5.0)
    assert code == 1
    rows = json.loads((tmp_path / "results/summary.json").read_text())
    assert {row["status"] for row in rows} == {"left out: the time was up"}
