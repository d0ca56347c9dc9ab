"""``tvmconv bench`` on one layer and on a network of a few kilobytes."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.cli.verbs import data_of, invoke


def test_check_model_of_a_layer():
    words = ("dev", "check-model", "--layer", "ic16ih8oc16kh1", "--rounds", 1)
    report = data_of(*words, "--seconds", 0.001)
    assert report["layers"][0]["loss"] == report["worst_loss"] >= 0


def test_bench_of_a_layer_saved_and_compared(folder: Path):
    words = ("bench", "run", "--layer", "ic8ih6oc8kh3ph1", "--baselines", "onnxruntime",
             "--rounds", 2, "--seconds", 0.001, "--algorithms", "direct,winograd")  # fmt: skip
    data = data_of(*words, "--report", folder / "bench.json", "--csv", folder / "bench.csv")
    assert data == json.loads((folder / "bench.json").read_text())
    assert {"schema", "kind", "machine", "settings", "results", "measurements"} <= set(data)
    (case,) = data["results"]
    entries = {entry["label"]: entry for entry in case["entries"]}
    assert {"peak", "tvmconv direct", "onnxruntime"} <= set(entries)
    for entry in entries.values():
        assert entry["status"] == "ok", entry
        assert len(entry["rounds"]) == 2
        assert all(sample > 0 for samples in entry["rounds"] for sample in samples)
    assert entries["tvmconv direct"]["error"] < 1e-5
    assert case["flops"] == 2 * 8 * 6 * 6 * 8 * 9
    for row in data["measurements"]:
        assert row["min_seconds"] <= row["p90_seconds"] <= row["p99_seconds"]
        assert row["calls_per_second"] == pytest.approx(1 / row["mean_seconds"])
    both = invoke("bench", "compare", folder / "bench.json", folder / "bench.json")
    assert "x saved" in both.stdout
    with (folder / "bench.csv").open() as file:
        assert {row["contender"] for row in csv.DictReader(file)} == set(entries)


def test_bench_of_an_ablation_with_everything_and_shown_again(folder: Path):
    words = ("bench", "run", "--layer", "ic16ih8oc16kh3ph1", "--baselines", "onnxruntime",
             "--batch", 2, "--algorithms", "direct:steps,winograd:mh=2:mw=2", "--stages", "--cold",
             "--memory", "--rounds", 1, "--seconds", 0.001)  # fmt: skip
    data = data_of(*words, "--report", folder / "all.json")
    forms = [f"tvmconv direct_naive:variant={form}" for form in ("naive", "reordered")]
    ours = [*forms, "tvmconv direct", "tvmconv winograd:mh=2:mw=2"]
    (case,) = data["results"]
    assert case["problem"].startswith("mb2ic16")
    assert [entry["label"] for entry in case["entries"]] == ["peak", *ours, "onnxruntime"]
    assert {entry["status"] for entry in case["entries"]} == {"ok"}
    assert [row["contender"] for row in data["kernels"]] == ours
    assert {row["stage"] for row in data["stages"] if "winograd" in row["contender"]} == {
        "input transform", "products", "output transform"
    }  # fmt: skip
    assert [row["contender"] for row in data["cold"]] == [*ours, "onnxruntime"]
    assert all(row["cold_seconds"] > 0 for row in data["cold"])
    assert {"im2col, formula", *ours} <= {row["method"] for row in data["memory"]}
    shown = data_of("bench", "show", folder / "all.json")
    assert shown == data
    refused = invoke("bench", "show", folder / "all.json", "--relative-to", "nobody")
    assert refused.exit_code == 1
    assert "rows are tvmconv direct_naive:variant=naive" in refused.stderr


def test_bench_of_a_model(folder: Path):
    data = data_of(
        "bench", "run", folder / "small.onnx", "--shape", "input:1x3x21x20", "--baselines",
        "onnxruntime", "--rounds", 1, "--seconds", 0.001,
    )  # fmt: skip
    entries = {entry["label"]: entry for entry in data["results"][0]["entries"]}
    assert {entry["status"] for entry in entries.values()} == {"ok"}
    assert entries["tvmconv"]["error"] < 1e-4
    assert data["summary"][0]["best_peer"] == "onnxruntime"
    assert data["results"][0]["problem"] == "small.onnx"


def test_bench_of_streams(folder: Path):
    data = data_of(
        "bench", "run", folder / "small.onnx", "--shape", "input:1x3x21x20", "--baselines",
        "onnxruntime,openvino", "--rounds", 2, "--seconds", 0.001, "--streams", 2, "--threads", 1,
        "--report", folder / "streams.json",
    )  # fmt: skip
    assert set(data) & {"measurements", "summary"} == set()
    case = data["results"][0]
    entries = {entry["label"]: entry for entry in case["entries"]}
    assert (case["streams"], [*entries]) == (2, ["tvmconv", "onnxruntime", "openvino"])
    assert entries["openvino"]["status"] in ("ok", "absent")
    for name in ("tvmconv", "onnxruntime"):
        assert entries[name]["status"] == "ok" and entries[name]["error"] < 1e-4
        assert len(entries[name]["rates"]) == 2 and min(entries[name]["rates"]) > 0
        # each stream calls at least twice
        assert all(len(samples) >= 4 for samples in entries[name]["rounds"])
    compared = data_of("bench", "compare", folder / "streams.json", folder / "streams.json")
    rows = [row for row in compared["throughput"] if row["status"] == "ok"]
    assert {row["speedup_over_saved"] for row in rows} == {1.0}
