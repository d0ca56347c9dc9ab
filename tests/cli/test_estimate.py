"""``--estimate`` of explain and bench: every figure is called an estimate."""

from __future__ import annotations

import pytest

from tests.cli.verbs import data_of, invoke
from tests.emulating import needs_arm
from tests.estimating import needs_estimation

LAYER = "mb1ic8ih9iw14oc12kh1"
SQUARE = "mb1ic8ih6iw7oc8kh3ph1"


@needs_arm
@needs_estimation
def test_explain_estimates_every_call(folder):
    words = ("explain", folder / "small.onnx", "--shape", "input:1x3x21x20")
    report = data_of(*words, "--target", "cortex-a72", "--estimate", "--tuning-log", "none")
    rows = report["estimates"]
    assert report["threads"] == 1
    assert len(rows) == len(report["calls"])
    assert sum(row["estimated_cycles"] for row in rows) == pytest.approx(
        report["estimated_cycles"], abs=1
    )
    assert report["estimated_seconds"] == pytest.approx(
        report["estimated_cycles"] / 1.5e9, rel=1e-3
    )
    assert report["estimated_at"] == "1.50 GHz (Raspberry Pi 4)"
    assert report["estimate_method"].startswith("estimate, not a measurement")
    decided = {row["layer"]: row["algorithm"] for row in report["layers"]}
    for row in rows:
        if row["layer"] in decided:
            assert row["algorithm"] == decided[row["layer"]]
            assert row["instructions_per_needed"] > 0.2
            assert row["estimated_peak_share"] > 0
    assert sum(row["estimated_share"] for row in rows) == pytest.approx(1)


@needs_arm
@needs_estimation
def test_bench_estimates_algorithms(tmp_path):
    words = ("bench", "run", "--layer", LAYER, "--layer", SQUARE, "--target", "neoverse-n1")
    report = data_of(
        *(*words, "--baselines", "none", "--estimate", "--algorithms", "direct,winograd"),
        *("--csv", tmp_path / "table.csv"),
    )
    assert report["title"].startswith("Estimated, not measured: neoverse-n1")
    assert report["estimate_method"].startswith("estimate, not a measurement")
    point, square = report["estimates"][:3], report["estimates"][3:]
    for rows in (point, square):
        assert {row["label"] for row in rows} == {"tvmconv", "tvmconv direct", "tvmconv winograd"}
        assert min(row["over_least"] for row in rows if "over_least" in row) == 1
    direct = next(row for row in point if row["label"] == "tvmconv direct")
    assert direct["multiply_adds"] == 8 * 9 * 14 * 12 // 4
    assert direct["instructions_per_needed"] > 1
    assert 0.5 < direct["estimated_peak_share"] <= 1
    winograd = next(row for row in point if row["label"] == "tvmconv winograd")
    assert "estimated_cycles" not in winograd
    assert "1x1" in winograd["info"]
    assert all("estimated_cycles" in row for row in square)
    # the variants with an estimate of every case
    assert {total["label"] for total in report["totals"]} == {"tvmconv", "tvmconv direct"}
    assert "multiply_adds" in (tmp_path / "table.csv").read_text().splitlines()[0]


@needs_arm
@needs_estimation
def test_bench_estimates_matrix_products():
    words = ("--layer", "gemm:m24n32k40", "--target", "neoverse-n1", "--baselines", "none")
    report = data_of("bench", "run", *words, "--estimate")
    packed, before = report["estimates"]
    assert (packed["label"], before["label"]) == (
        "tvmconv gemm",
        "tvmconv gemm, B packed before",
    )
    # the tile divides neither extent for certain, so that some are zeros' products
    assert 24 * 32 * 40 / 4 <= packed["multiply_adds"] < 2 * 24 * 32 * 40 / 4
    assert before["instructions"] < packed["instructions"]
    assert 0 < before["estimated_peak_share"] <= 1


@needs_arm
@needs_estimation
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--layer", LAYER, "--threads", "1,2"), "one thread"),
        (("--layer", LAYER, "--baselines", "onednn"), "onednn: no interpreter"),
        (("--layer", LAYER, "--cold"), "Leave out --stages, --cold"),
    ],
)
def test_what_bench_cannot_estimate_is_refused(words, why):
    result = invoke("bench", "run", *words, "--target", "neoverse-n1", "--estimate")
    assert result.exit_code == 1
    assert why in result.stderr
