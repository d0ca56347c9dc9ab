"""Stages, cold calls, threads, comparisons and memory of a bench, from records made by hand."""

from __future__ import annotations

import json
import re

import pytest

from tvmconv.core.errors import InputError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.lab.baselines.worker import _thinned
from tvmconv.lab.bench.case_memory import layer_bytes, too_large
from tvmconv.lab.bench.report import bench_report
from tvmconv.lab.bench.result import BenchResult, CaseResult, Entry
from tvmconv.measuring.suites import load, with_batch

PROBLEM = "mb1ic16ih10iw10oc16oh8ow8kh3kw3"
LOADED = {
    "file_bytes": 2 << 20,
    "load_seconds": 0.004,
    "first_call_seconds": 0.002,
    "load_bytes": 5 << 20,
}
FACTS = {"multiplies": 250, "workspace_bytes": 1024, "packed_weight_bytes": 9216}
MIB = 2**20


def entry(label: str, seconds: float, **more) -> Entry:
    return Entry(label, "ok", operations=1000, rounds=[[2 * seconds], [seconds]], **more)


def case(name: str, threads: int, scale: float = 1.0) -> CaseResult:
    stages = {"input": [3e-6, 1e-6], "products": [4e-6, 4e-6], "output": [9e-6, 5e-6]}
    entries = (
        Entry("peak", "ok", operations=4000, rounds=[[1e-6]]),
        entry("tvmconv winograd", 4e-6, facts=FACTS, stages=stages,
              cold=[[2e-5], [8e-6]], cold_weights=[[6e-6]]),
        entry("tvmconv direct", 8e-6 / threads, facts={**FACTS, "workspace_bytes": 0}),
        entry("tvmconv im2col:mc=0", 16e-6 * scale, facts={**FACTS, "call_bytes": 40_000}),
        entry("torch", 12e-6, cold=[[2.4e-5]], facts={"call_bytes": 60_000}),
    )  # fmt: skip
    return CaseResult(name, "layer", PROBLEM, 1000, 1, threads, entries)


def tables(*cases: CaseResult, against: str = "", memory: bool = True) -> dict:
    result = BenchResult({"cpu": "test"}, {"memory": memory}, cases)
    again = BenchResult.from_json(json.loads(json.dumps(result.to_json())))
    assert again == result
    return bench_report(again, against=against).to_json()


def test_effective_and_real_rates():
    rows = {row["contender"]: row for row in tables(case("a", 1))["kernels"]}
    row = rows["tvmconv winograd"]
    assert row["gflops"] == pytest.approx(0.25)
    assert row["real_gflops"] == pytest.approx(0.125)
    assert row["peak_share"] == pytest.approx(0.25 / 4)
    assert row["workspace_bytes"] == 1024
    assert "torch" not in rows


def test_stages_are_differences_of_calls_that_end_later():
    rows = tables(case("a", 1))["stages"]
    assert [row["stage"] for row in rows] == ["input", "products", "output"]
    assert [row["seconds"] for row in rows] == pytest.approx([1e-6, 3e-6, 1e-6])
    assert sum(row["share"] for row in rows) == pytest.approx(1)


def test_cold_next_to_warm():
    rows = {row["contender"]: row for row in tables(case("a", 1))["cold"]}
    assert set(rows) == {"tvmconv winograd", "torch"}
    own = rows["tvmconv winograd"]
    assert (own["seconds"], own["cold_seconds"]) == (4e-6, 8e-6)
    assert own["cold_weights_seconds"] == 6e-6
    assert rows["torch"]["times_tvmconv"] == pytest.approx(3)


def test_threads_scale():
    rows = tables(case("a", 1), case("a", 2))["scaling"]
    found = {(row["contender"], row["threads"]): row for row in rows}
    assert found["tvmconv direct", 2]["speedup"] == pytest.approx(2)
    assert found["tvmconv direct", 2]["efficiency"] == pytest.approx(1)
    assert found["torch", 2]["efficiency"] == pytest.approx(0.5)
    assert "scaling" not in tables(case("a", 1))


def test_wins_and_losses_against_a_row():
    data = tables(case("a", 1), case("b", 1, scale=0.5))
    found = {(row["baseline"], row["contender"]): row for row in data["against"]}
    assert {baseline for baseline, _ in found} == {"tvmconv im2col:mc=0", "tvmconv direct"}
    row = found["tvmconv im2col:mc=0", "torch"]
    assert (row["cases"], row["won"], row["lost"]) == (2, 1, 1)
    assert (row["min"], row["max"]) == pytest.approx((8 / 12, 16 / 12))
    assert row["mean"] == pytest.approx(1)
    assert row["geomean"] == pytest.approx((8 * 16) ** 0.5 / 12)
    data = tables(case("a", 1), against="torch")
    assert {row["baseline"] for row in data["against"]} == {"torch"}
    with pytest.raises(
        InputError, match="unknown row --relative-to 'caffe'; rows are tvmconv winograd"
    ):
        tables(case("a", 1), against="caffe")


def test_cold_weights_are_compared_where_both_have_them():
    assert "against_cold_weights" not in tables(case("a", 1), against="winograd")
    entries = (
        entry("tvmconv untuned", 4e-6, cold_weights=[[6e-6]]),
        entry("tvmconv tuned", 5e-6, cold_weights=[[3e-6]]),
        entry("torch", 1e-6),
    )
    both = CaseResult("a", "layer", PROBLEM, 1000, 1, 1, entries)
    (row,) = tables(both, against="untuned")["against_cold_weights"]
    assert (row["contender"], row["min"]) == ("tvmconv tuned", pytest.approx(2))


def test_memory_of_methods_against_im2col():
    data = tables(case("a", 1))
    rows = {row["method"]: row for row in data["memory"]}
    base = 4 * (16 * 100 + 16 * 16 * 9 + 16 * 64)
    assert rows["im2col, formula"]["total_bytes"] == base + 4 * 64 * 16 * 9
    assert rows["im2win, formula"]["buffer_bytes"] == 4 * 16 * 8 * 10 * 3
    assert rows["tvmconv winograd"]["total_bytes"] == base + 1024
    summary = {row["method"]: row for row in data["memory_summary"]}
    direct = summary["tvmconv direct"]
    assert direct["ratio_of_means"] == direct["mean_of_ratios"] == direct["min"]
    assert (direct["cases"], direct["less"]) == (1, 1)
    whole = 4 * (16 * 100 + 16 * 16 * 9)
    assert summary["torch"]["measured_mean_of_ratios"] == pytest.approx(
        (whole + 60_000) / (whole + 40_000)
    )
    assert "memory" not in tables(case("a", 1), memory=False)


def test_bytes_are_those_that_the_thesis_counts():
    """Batch 128; MiB of im2col, im2win and the whole, recomputed in the extract of its tables."""
    layers = {layer.name: with_batch(layer, 128).workload for layer in load("dnn12")}
    savings, shares = [], []
    for name, im2col, im2win in (("conv4", 18192.8, 5341.0), ("conv5", 468.8, 112.5)):
        size = layer_bytes(layers[name])
        assert size.im2col / MIB == pytest.approx(im2col, abs=0.06)
        assert size.im2win / MIB == pytest.approx(im2win, abs=0.06)
    for workload in layers.values():
        size = layer_bytes(workload)
        tensors = size.input + size.filter + size.output
        savings.append(1 - (tensors + size.im2win) / (tensors + size.im2col))
        shares.append(size.im2win / size.im2col)
    assert sum(savings) / 12 == pytest.approx(0.47, abs=0.005)
    assert sum(shares) / 12 == pytest.approx(0.351, abs=0.005)


def test_layers_that_do_not_fit_are_skipped_with_advice():
    workload = Conv2dWorkload.parse("mb128ic64ih224oc64kh7sh2")
    names = ["peak", "tvmconv im2win", "tvmconv im2col:mc=0", "torch"]
    assert too_large(workload, names, available=2**50) == ""
    advice = "3 implementations need about .* GiB, and 1.0 GiB are available; name fewer"
    assert re.search(advice, too_large(workload, names, available=2**30))
    # the matrix alone takes 17.8 GiB, which direct convolution does not need
    assert too_large(workload, ["peak", "torch"], available=20 * 2**30)
    assert too_large(workload, ["peak", "tvmconv direct"], available=20 * 2**30) == ""
    skipped = CaseResult("big", "layer", str(workload), 1, 1, 1, (), "skipped: 8 implementations")
    assert "big skipped: 8 implementations" in " ".join(tables(skipped)["notes"])


def test_many_samples_are_thinned_by_rank():
    few = [3.0, 1.0, 2.0]
    assert _thinned(few) is few
    many = _thinned([float(i) for i in range(1000, -1, -1)])
    assert len(many) == 65
    assert (many[0], many[32], many[-1]) == (0.0, 500.0, 1000.0)


def test_files_that_were_loaded_have_a_table():
    rows = (
        entry("tvmconv", 4e-6, facts=LOADED),
        entry("torch", 8e-6),
        Entry("mnn", "wrong", facts=LOADED),
    )
    loaded = CaseResult("net", "model", "", 1000, 1, 2, rows)
    (row,) = tables(loaded, memory=False)["loading"]
    assert row == {"case": "net", "threads": 2, "contender": "tvmconv", **LOADED}
