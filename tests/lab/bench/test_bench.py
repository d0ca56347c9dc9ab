"""Plans, saved results and tables of a bench; measured values are not asserted."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pytest

from tvmconv.cli.output import write_text
from tvmconv.core.errors import InputError, TvmconvError, WorkloadError
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.report import bench_report
from tvmconv.lab.bench.result import BenchResult, CaseResult, Entry, joined, read_saved
from tvmconv.measuring.host import host_header, pick_cpus

RESULTS = Path(__file__).parents[3] / "docs/results"
ESTIMATES = RESULTS / "arm-peers.json.gz"
FTENGINE = RESULTS / "ftengine.json.gz"
COST_FIT = RESULTS / "cost-fit-zen4.json.gz"
ONNX_TESTS = RESULTS / "onnx-backend.json.gz"
SPACES = RESULTS / "search-spaces.json.gz"
PREDICTIONS = sorted(RESULTS.glob("cuda-*-predicted.json.gz"))


def result(ours: float, theirs: float) -> BenchResult:
    entries = (
        Entry("peak", "ok", operations=2000, rounds=[[1e-6, 2e-6]]),
        Entry(
            "tvmconv direct",
            "ok",
            error=1e-7,
            operations=1000,
            rounds=[[ours], [2 * ours]],
            foreign=[0.1, 0.9],
        ),
        Entry("slow", "ok", error=1e-7, operations=1000, rounds=[[theirs, theirs]]),
        Entry("liar", "wrong", error=0.5, operations=1000, message="differs"),
        Entry("gone", "absent", message="no module"),
    )
    cases = tuple(CaseResult(n, "layer", "ic4ih5oc4kh3", 1000, 1, 1, entries) for n in "ab")
    machine = {
        "cpu": "test",
        "date": "2026",
        "versions": {"tvmconv": "1"},
        "load_average": [0, 0, 0],
    }
    return BenchResult(machine, {"rounds": 2}, cases)


def test_saved_results_round_trip(tmp_path: Path):
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(bench_report(result(2e-6, 4e-6)).to_json()))
    assert read_saved(path) == result(2e-6, 4e-6)


def test_saved_results_are_joined_of_one_processor_only():
    both = joined([result(2e-6, 4e-6), result(3e-6, 4e-6)])
    assert [case.name for case in both.results] == ["a", "b", "a", "b"]
    other = BenchResult({"cpu": "another"}, {}, ())
    with pytest.raises(InputError, match="different processors: test and another"):
        joined([result(2e-6, 4e-6), other])


def test_rows_rates_and_ratios():
    report = bench_report(result(2e-6, 4e-6), earlier=result(3e-6, 4e-6))
    rows = {r["contender"]: r for r in report.to_json()["measurements"] if r["case"] == "a"}
    assert rows["peak"]["gflops"] == pytest.approx(2.0)
    ours = rows["tvmconv direct"]
    assert ours["gflops"] == pytest.approx(0.5)
    assert ours["peak_share"] == pytest.approx(0.25)
    assert ours["median_seconds"] == pytest.approx(3e-6)
    assert ours["speedup_over_saved"] == pytest.approx(1.5)
    assert rows["slow"]["times_tvmconv"] == pytest.approx(2.0)
    assert rows["liar"]["min_seconds"] is None
    summary = report.to_json()["summary"][0]
    assert (summary["best_peer"], summary["speedup"]) == ("slow", pytest.approx(2.0))
    notes = " ".join(report.notes)
    assert "25.0 % of peak, 2.000 x the best baseline" in notes
    assert "gone absent: no module (2 cases)" in notes
    assert "used up to 0.9 CPUs in 2 of 4 rounds" in notes


def test_rates_of_streams():
    single = result(2e-6, 4e-6)
    entries = (
        Entry("tvmconv", "ok", rounds=[[2e-3] * 98 + [9e-3] * 2, [3e-3]], rates=[900.0, 1000.0]),
        Entry("slow", "ok", rounds=[[4e-3]], rates=[500.0]),
        Entry("gone", "absent"),
    )
    case = CaseResult("a", "model", "a.onnx", 0, 1, 1, entries, streams=2, images=3)
    both = replace(single, results=(*single.results, case))
    assert BenchResult.from_json(both.to_json()) == both
    data = bench_report(both, earlier=both).to_json()
    ours, slow, gone = data["throughput"]
    assert (ours["images_per_second"], ours["median_images_per_second"]) == (3000, 2850)
    assert (ours["p50_seconds"], ours["p99_seconds"], ours["streams"]) == (2e-3, 9e-3, 2)
    assert (slow["times_tvmconv"], slow["speedup_over_saved"]) == (2, 1)
    assert gone["images_per_second"] is None and gone["status"] == "absent"
    assert data["summary"] == bench_report(single).to_json()["summary"]


def test_a_compressed_file_is_read_as_what_it_holds(tmp_path: Path):
    path = tmp_path / "saved.json.gz"
    write_text(path, json.dumps(result(2e-6, 4e-6).to_json()))
    assert path.read_bytes()[:2] == b"\x1f\x8b"
    assert read_saved(path) == result(2e-6, 4e-6)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="was not written by"):
        read_saved(path)


def test_every_result_of_the_documents_is_readable():
    others = {COST_FIT, ESTIMATES, FTENGINE, ONNX_TESTS, SPACES, *PREDICTIONS}
    saved = set(RESULTS.glob("*.json.gz")) - others
    assert saved
    assert all(read_saved(path).results for path in saved)


def saved_estimates(path: Path) -> dict[str, Any]:
    """A file of estimates, which the bench refuses as results."""
    with pytest.raises(InputError, match="not written by"):
        read_saved(path)
    with gzip.open(path) as file:
        saved: dict[str, Any] = json.load(file)
    assert saved["method"].startswith("estimates, not measurements")
    return saved


def test_estimates_of_the_documents_are_not_taken_for_results():
    saved = saved_estimates(ESTIMATES)
    assert all(row["tvmconv"]["cycles"] > 0 for rows in saved["layers"].values() for row in rows)


def test_estimates_of_the_layers_of_ftengine_are_those_of_the_table():
    saved = saved_estimates(FTENGINE)
    table = (RESULTS.parent / "notes/arm-estimated.md").read_text()
    found = [row for row in saved["convolutions"] if row["label"] == "openblas"]
    assert len(found) == 14
    for row in found:
        (line,) = (text for text in table.splitlines() if text.startswith(f"| {row['case']}, "))
        stated = float(line.split("|")[4])
        assert row["estimated_cycles"] / 1e6 == pytest.approx(stated, abs=0.06)


def test_predictions_of_the_documents_are_not_taken_for_results():
    assert len(PREDICTIONS) == 8
    for path in PREDICTIONS:
        with pytest.raises(InputError, match="not written by"):
            read_saved(path)
        with gzip.open(path) as file:
            saved = json.load(file)
        assert saved["method"].startswith("Predicted, not measured")
        assert {row["measured"] for row in saved["predictions"]} == {"not measured"}


def taken(name: str) -> list[dict[str, Any]]:
    """The selection of a build for each layer, from a file of predictions."""
    with gzip.open(RESULTS / f"cuda-{name}-predicted.json.gz") as file:
        rows = json.load(file)["predictions"]
    return [row for row in rows if row["contender"] == "tvmconv"]


def test_predictions_on_tensor_cores_are_those_of_the_tables():
    page = (RESULTS.parent / "notes/cuda-predicted.md").read_text()
    section = page.partition("## Tensor cores")[2]
    lines = section.partition("\n## ")[0].splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if "| not" in line
    ]
    assert len(rows) == 12 + 3
    assert {row[1] for row in rows} == {"not measured"}
    whole, *rounded = (taken(name) for name in ("dnn12", "dnn12-tf32", "dnn12-fp16"))
    assert {row["precision"] for row in rounded[0]} == {"tf32"}
    assert {row["precision"] for row in rounded[1]} == {"fp16"}
    for row, plain, *others in zip(rows, whole, *rounded, strict=False):
        stated = [f"{1e3 * plain['predicted_seconds']:.3g}"]
        for found in others:
            assert found["algorithm"] == "implicit_gemm_mma"
            stated += [
                f"{1e3 * found['predicted_seconds']:.3g}",
                f"{100 * found['peak_share']:.0f}",
            ]
        assert row == [plain["case"].split()[0], "not measured", *stated]
    for row in rows[12:]:
        stated = []
        for name in ("resnet50", "resnet50-tf32", "resnet50-fp16"):
            found = [each for each in taken(name) if each["case"].endswith(f" mb{row[0]}")]
            seconds = sum(each["count"] * each["predicted_seconds"] for each in found)
            work = sum(e["count"] * e["predicted_seconds"] * e["gflops"] for e in found)
            mean = geometric_mean(each["limit_share"] for each in found)
            stated.append([f"{1e3 * seconds:.3g}", f"{work / seconds / 1e3:.1f}", f"{mean:.2f}"])
        assert row[2:] == [stated[0][0], *stated[1], *stated[2]]


@pytest.mark.parametrize("name", ["other.json", "other.json.gz"])
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "bench", "schema": 99}', "nonsense"])
def test_other_files_are_refused(tmp_path: Path, text: str, name: str):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError, match="was not written by"):
        read_saved(path)


def test_a_missing_file_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match="cannot read"):
        read_saved(tmp_path / "none.json")


def test_plan_words():
    plan = make_plan(layers=["ic4ih5oc4kh3"], suites=["dnn12"], baselines="ort,onednn,ort")
    assert plan.baselines == ("onnxruntime", "onednn")
    assert len(plan.layers) == 13
    assert make_plan(baselines="none").baselines == ()


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ({"baselines": "caffe"}, InputError, "unknown library 'caffe'"),
        ({"suites": ["nope"]}, WorkloadError, "unknown suite"),
        ({"layers": ["ic4"]}, WorkloadError, "lacks"),
        ({"models": [Path("nope.onnx")]}, InputError, "does not exist"),
        ({"baseline_python": ["/nonexistent/python"]}, InputError, "not an executable"),
        ({"baseline_python": ["caffe=/bin/sh"]}, InputError, "unknown library"),
        ({"log": "none.jsonl"}, TvmconvError, "none.jsonl does not exist"),
        ({"streams": [2], "layers": ["ic4ih5oc4kh3"]}, InputError, "whole calls of models alone"),
        ({"streams": [2], "stages": True}, InputError, "Leave out .* --stages"),
        ({"streams": [2], "target": "cuda:sm_90"}, InputError, "'cuda:sm_90'. Expected a CPU"),
    ],
)
def test_plan_errors(words, error, message):
    with pytest.raises(error, match=message):
        make_plan(**words)


def test_header_names_machine_state_and_versions():
    header = host_header()
    assert {"tvmconv", "TVM", "LLVM"} == set(header["versions"])
    assert len(header["load_average"]) == 3
    assert {"cpu", "caches", "features", "governor", "date", "cores"} <= set(header)
    json.dumps(header)


def test_picked_cpus_are_ours():
    import os

    allowed = os.sched_getaffinity(0)
    assert len(pick_cpus(1)) == 1
    assert set(pick_cpus(len(allowed))) == allowed
