"""The script for the few minutes with a GPU: every phase is a bench that can be prepared."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from examples.gpu import checks, measuring
from examples.gpu import phases as script
from examples.gpu.__main__ import main
from examples.gpu.measuring import Archive
from examples.gpu.networks import folded, planned
from examples.gpu.preparing import contents, pack, prepared_target, unpacked
from examples.gpu.rows import report
from examples.networks import NETWORKS
from tests.cli.verbs import invoke
from tests.emulated_gpu import EmulatedGpu, bare, needs_emulator
from tvmconv.cli.output import write_text
from tvmconv.lab.bench.gpu import prepare
from tvmconv.lab.bench.result import BenchResult, CaseResult, Entry
from tvmconv.report.document import Report

MODELS = ("networks", "torch-compile")


@pytest.mark.parametrize("small", [False, True], ids=["whole", "small"])
def test_every_phase_names_kernels_that_there_are(small, tmp_path, monkeypatch):
    (tmp_path / script.SUITE_FILE).write_text(script.SMALL_SUITE)
    models = [tmp_path / path for path in planned(small)]
    for path in models:
        path.touch()
    plans = []

    def compile_plan(plan, tell):
        plans.append(plan)
        return Report("bench-compiled", "", {}, ())

    monkeypatch.setattr(prepare, "compile_plan", compile_plan)
    found = list(script.phases(tmp_path, small, models))
    for phase in found:
        words = script.command(phase, tmp_path, "cuda:sm_90", 0, "--compile-only")
        result = invoke(*words[words.index("bench") :])
        assert result.exit_code == 0, result.stderr
    assert len({phase.name for phase in found}) == len(found) == len(plans)
    kernels = {
        phase.name: prepare.plan_kernels(plan) for phase, plan in zip(found, plans, strict=True)
    }
    forms = {(kernel.algorithm, kernel.config.get("mh")) for kernel in kernels["correct"]}
    assert {name for name, _ in forms} >= {"direct", "depthwise", "implicit_gemm", "winograd"}
    assert len(kernels["im2win-steps"]) > 5 * len({k.workload for k in kernels["im2win-steps"]})
    for precision in script.PRECISIONS:
        assert {kernel.config["precision"] for kernel in kernels[precision]} == {precision}
    if not small:
        assert sum(phase.seconds for phase in found) <= 460
        assert len(kernels["resnet50-layers"]) == 69
        assert {kernel.workload.batch for kernel in kernels["dnn12"]} == {128}
        assert [plan.models for plan in plans].count(tuple(models)) == len(MODELS)
    assert [p.name for p in script.phases(tmp_path, small, models, MODELS)] == list(MODELS)


def test_a_phase_is_ended_when_its_time_is_up():
    start = time.monotonic()
    words = [sys.executable, "-uc", "import time; print('one'); time.sleep(60)"]
    status, said = measuring.run(words, dict(os.environ), 3)
    assert time.monotonic() - start < 30
    assert status.startswith("ended")
    assert said == "one\n"
    assert measuring.run([sys.executable, "-c", "exit(3)"], dict(os.environ), 30)[0] == "failed (3)"


def test_without_a_gpu_nothing_is_tried(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    monkeypatch.setattr(measuring, "run", None)
    code = measuring.measure(tmp_path, tmp_path / "results", False, "cuda:sm_90", total=5.0)
    said = capsys.readouterr().out
    if "CUDA up to" in said:
        pytest.skip("this machine has a GPU")
    assert code == 2
    assert said.splitlines()[-1].startswith("this system has no driver for NVIDIA GPUs")
    assert not (tmp_path / "results").exists()


@pytest.fixture
def machine(monkeypatch):
    """One with a GPU."""
    monkeypatch.setattr(measuring, "find_gpu", lambda *given: (True, "H100"))
    monkeypatch.setattr(measuring, "baselines", lambda state: [])


def test_stages_without_time_are_reported(tmp_path, machine):
    code = measuring.measure(tmp_path, tmp_path / "results", False, "cuda:sm_90", total=5.0)
    assert code == 1
    rows = json.loads((tmp_path / "results/summary.json").read_text())
    assert {row["status"] for row in rows} == {"left out: the time was up"}


def saved() -> BenchResult:
    """A run that was ended after its first case."""
    entries = (
        Entry("peak", "ok", operations=10**9, rounds=[[1e-4]]),
        Entry(
            *("tvmconv winograd", "ok"),
            operations=10**9,
            rounds=[[2e-4, 3e-4]],
            facts={"translated_by_cuda": "12.4"},
        ),
        Entry("tvmconv direct", "wrong", message="the outputs differ"),
        Entry("cudnn", "ok", "2.11", operations=10**9, rounds=[[1e-4]]),
    )
    case = CaseResult("conv1 mb128", "layer", "mb128ic3ih8oc8kh3", 10**9, 1, 1, entries)
    gpu = {"name": "H100", "driver_cuda": "13.0", "target": "cuda:sm_90"}
    settings = {"cases": ["conv1 mb128", "conv2 mb128"]}
    return BenchResult({"gpu": gpu}, settings, (case,))


def test_each_phase_has_its_own_chance(tmp_path, machine, monkeypatch):
    """One raises, one saves a part, one is ended without a file, the others have no time."""
    limits, done = [], iter(range(20))

    def run(words, state, seconds, meanwhile):
        assert words[words.index("--device") + 1] == "1"
        limits.append(seconds)
        match next(done):
            case 0:
                raise OSError("no memory")
            case 1:
                path = Path(words[words.index("--report") + 1])
                write_text(path, json.dumps(saved().to_json()))
                return "done", "much\nwas said"
        return "ended: its time was up", "half a line"

    monkeypatch.setattr(measuring, "run", run)
    monkeypatch.setattr(measuring, "write_networks", lambda folder, small: None)
    code = measuring.measure(tmp_path, tmp_path, False, "cuda:sm_90", total=460.0, device=1)
    assert code == 1
    rows = json.loads((tmp_path / "summary.json").read_text())
    assert [row["phase"] for row in rows] == [p.name for p in script.phases(tmp_path, False, [])]
    assert rows[0]["status"] == "failed: OSError: no memory"
    assert rows[1]["status"] == "done, but for some cases and rows that failed or are wrong (1)"
    assert rows[1]["missing"] == ["conv2 mb128"]
    reason = "tvmconv direct wrong: the outputs differ"
    assert rows[1]["rows_without_time"] == {reason: ["conv1 mb128"]}
    assert all(row["status"].startswith("ended") for row in rows[2:])
    # a stage's remaining time goes to the next
    assert limits[1] == pytest.approx(105 + 85, abs=5)
    lines = measuring.table(rows)
    assert any(line.strip() == "no cases: conv2 mb128" for line in lines)


def test_comparisons_of_layers_and_networks_come_first(tmp_path):
    """If time runs out, the first stages are there."""
    names = [phase.name for phase in script.phases(tmp_path, False, [])]
    assert names[:3] == ["dnn12", "resnet50-layers", "networks"]


def test_results_are_one_file_that_is_whole_while_phases_run(tmp_path, machine, monkeypatch):
    path, there = tmp_path / "out/results.zip", []

    def run(words, state, seconds, meanwhile):
        saved_to = Path(words[words.index("--report") + 1])
        if not there:
            write_text(saved_to, json.dumps(saved().to_json()))
            meanwhile()
            # as if the machine went away now
            there.append(report(path))
            return "done", ""
        return "failed (1)", "no such thing"

    monkeypatch.setattr(measuring, "run", run)
    monkeypatch.setattr(measuring, "write_networks", lambda folder, small: None)
    measuring.measure(tmp_path, path, False, "cuda:sm_90", total=460.0)
    assert "conv1 mb128" in there[0]
    assert [each.name for each in path.parent.iterdir()] == ["results.zip"]
    text = report(path)
    assert "conv1 mb128" in text
    assert "failed (1)" in text


def test_an_archive_is_written_where_something_changed(tmp_path):
    folder, path = tmp_path / "results", tmp_path / "results.zip"
    folder.mkdir()
    archive = Archive(folder, path)
    assert not archive.update()
    assert not path.exists()
    (folder / "summary.json").write_text("[]")
    assert archive.update()
    assert not archive.update()
    (folder / "dnn12.json.gz").write_bytes(b"12")
    (folder / "dnn12.json.gz.7.new").write_bytes(b"1")
    assert archive.update()
    with zipfile.ZipFile(path) as found:
        assert found.namelist() == ["dnn12.json.gz", "summary.json"]
    assert not Archive(folder, None).update()


def test_what_is_looked_after_while_a_bench_runs(monkeypatch):
    monkeypatch.setattr(measuring, "_EVERY_SECONDS", 0.05)
    seen = []
    # it ends once somebody looked three times
    process = (
        "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"
    )
    with tempfile.TemporaryDirectory() as folder:
        mark = Path(folder) / "mark"

        def meanwhile():
            seen.append(1)
            if len(seen) == 3:
                mark.touch()

        words = [sys.executable, "-c", process, str(mark)]
        assert measuring.run(words, dict(os.environ), 120, meanwhile)[0] == "done"
    assert len(seen) >= 3


def test_missing_packages_are_reported_before_anything_else(tmp_path, monkeypatch, capsys):
    """A machine without the packages would end in an import otherwise."""
    monkeypatch.setattr(checks, "NEEDED", ("numpy", "no_such_package", "nor_this_one"))
    assert main(["measure", str(tmp_path / "no-kit.zip")]) == 2
    said = capsys.readouterr().err
    assert "lacks no_such_package, nor_this_one: nothing is measured without" in said


@needs_emulator
def test_a_kit_is_measured_where_only_what_is_asked_for_is_installed(tmp_path):
    gpu = EmulatedGpu(tmp_path / "gpu")
    words = ("-m", "examples.gpu", "prepare", tmp_path / "kit", "--small", "--phases", "tf32")
    done = gpu.python(*words)
    assert done.returncode == 0, done.stderr
    words = ("measure", tmp_path / "kit.zip", "--small", "-o", tmp_path / "results")
    done = gpu.python("-m", "examples.gpu", *words, "--phases", "tf32", **bare(gpu, tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads((tmp_path / "results/summary.json").read_text())
    assert (row["status"], row["cases"]) == ("done", 6)


def test_absent_libraries_are_reported_with_the_lost_rows(monkeypatch):
    monkeypatch.setattr(checks, "there", lambda name: False)
    lines = checks.baselines({})
    assert lines[0].startswith("torch is not there: rows cudnn, im2col_cublas")
    assert lines[1].startswith("onnxruntime is not there: networks")


def test_a_torch_that_sees_no_gpu_is_reported():
    pytest.importorskip("torch")
    (line,) = checks.baselines({**os.environ, "CUDA_VISIBLE_DEVICES": ""})
    assert line.startswith("torch ")
    assert line.endswith("sees no GPU: its rows are of no use")


def test_a_kit_says_what_it_was_prepared_for(tmp_path, capsys):
    place = contents(tmp_path / "kit")
    place.mkdir(parents=True)
    (place / "kit.json").write_text(json.dumps({"target": "cuda:h200"}))
    assert prepared_target(place) == "cuda:h200"
    with pytest.raises(SystemExit):
        main(["measure", str(tmp_path / "kit"), "--target", "cuda:sm_90"])
    assert "was prepared for cuda:h200, not for cuda:sm_90" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["measure", str(tmp_path / "other.zip")])
    assert "there is no kit at" in capsys.readouterr().err


def test_a_kit_of_another_version_is_refused(tmp_path, capsys):
    kit = tmp_path / "kit"
    (kit / "0123456789ab").mkdir(parents=True)
    with pytest.raises(SystemExit):
        main(["measure", str(kit), "-o", str(tmp_path / "results")])
    assert "prepare it again" in capsys.readouterr().err
    place = contents(kit)
    place.mkdir()
    (place / "one.kernel").write_bytes(b"1")
    found = unpacked(pack(kit), tmp_path / "there")
    assert (contents(found) / "one.kernel").read_bytes() == b"1"


def test_a_report_has_ratios_slow_layers_and_what_is_missing(tmp_path):
    path = tmp_path / "dnn12.json.gz"
    write_text(path, json.dumps(saved().to_json()))
    summary = [{"phase": "dnn12", "status": "done", **measuring.missing(path)}]
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    text = report(tmp_path)
    assert text.startswith("# H100, CUDA 13.0")
    assert "| conv1 mb128 | wrong | - | - | - | 0.2 | 0.1 | - | - | winograd | 50 | 0.50 |" in text
    assert "cudnn / tvmconv 0.50 of 1 layers; below 0.7: conv1 mb128 0.50" in text
    assert "no cases: conv2 mb128" in text
    assert "No fit" in text
    assert "kernels that it translated from PTX: 1," in text
    assert not list(tmp_path.glob(".*.new"))


def test_a_report_compares_tensor_cores_in_their_precision(tmp_path):
    label = "tvmconv implicit_gemm_mma:precision=fp16"
    entries = (
        Entry(label, "ok", operations=10**9, rounds=[[2e-4]]),
        Entry("cudnn", "ok", "2.11", operations=10**9, rounds=[[1e-4]]),
    )
    case = CaseResult("conv1 mb128", "layer", "mb128ic3ih8oc8kh3", 10**9, 1, 1, entries)
    result = BenchResult(saved().machine, {"precision": "fp16"}, (case,))
    write_text(tmp_path / "fp16.json.gz", json.dumps(result.to_json()))
    text = report(tmp_path)
    assert "## Tensor cores, fp16" in text
    assert "| conv1 mb128 | 0.2 | 0.1 | 0.50 |" in text


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_folded_networks_compute_the_same(name):
    model = NETWORKS[name](image=32, width=0.25)
    x = np.random.default_rng(0).standard_normal((1, 3, 32, 32), "float32")
    results = []
    for each in (model, folded(NETWORKS[name](image=32, width=0.25))):
        session = onnxruntime.InferenceSession(each.SerializeToString())
        results += session.run(None, {"input": x})
        kinds = {node.op_type for node in each.graph.node}
    assert "BatchNormalization" not in kinds
    right, found = results
    assert np.abs(found - right).max() <= 1e-5 * np.abs(right).max()
