"""A matrix product through the whole bench; measured values are not asserted."""

from __future__ import annotations

import json

import pytest

from tvmconv.core.errors import InputError
from tvmconv.lab.bench.case_memory import too_large
from tvmconv.lab.bench.measuring import run_plan
from tvmconv.lab.bench.plan import make_plan
from tvmconv.lab.bench.report import bench_report
from tvmconv.lab.bench.result import BenchResult
from tvmconv.measuring.suites import Product


def test_a_product_with_openblas_and_onnxruntime():
    plan = make_plan(
        layers=["gemm:m33n40k20"], baselines="openblas,ort,onednn", rounds=1, seconds=0.001
    )
    result = run_plan(plan)
    (case,) = result.results
    assert (case.kind, case.flops) == ("product", 2 * 33 * 40 * 20)
    names = ["tvmconv gemm", "tvmconv gemm, B packed before", "onnxruntime"]
    for name in names:
        entry = case.entry(name)
        assert entry is not None
        assert entry.status == "ok", entry.message
        assert entry.error < 1e-6
        assert entry.facts.get("multiplies", case.flops) >= case.flops // 2
    own = case.entry("tvmconv gemm")
    assert "mr=" in own.info
    assert own.facts["operations_per_value"] > 1
    assert case.entry("openblas").status in ("ok", "absent")
    assert case.peak_gflops > 0
    restored = BenchResult.from_json(json.loads(json.dumps(result.to_json())))
    assert "gemm:m33n40k20" in json.dumps(bench_report(restored).to_json())


def test_products_and_layers_are_planned_apart():
    plan = make_plan(layers=["gemm:m8n8k8", "ic4ih5oc4kh3"], suites=["sgemm"])
    assert [layer.name for layer in plan.layers] == [str(plan.layers[0].workload)]
    assert len(plan.products) == 10
    assert all(isinstance(product, Product) for product in plan.products)


def test_a_product_has_no_batch():
    with pytest.raises(InputError, match="no batch"):
        make_plan(layers=["gemm:m8n8k8"], batch=2)


def test_large_products_are_skipped_with_the_reason():
    (product,) = make_plan(layers=["gemm:m8192n8192k8192"]).products
    assert too_large(product.workload, ["peak", "torch"], 1 << 40) == ""
    assert "GiB" in too_large(product.workload, ["peak", "torch"], 1 << 30)
