"""Fitting the cost model of GPUs: to times that a changed record makes, and to noise."""

from __future__ import annotations

import pytest

from tvmconv.core.errors import InputError
from tvmconv.kernels.kernel import make_kernel
from tvmconv.lab.bench.gpu.fit import FACTORS, MeasuredKernel, fit, fit_report, ratios, with_factors
from tvmconv.lab.bench.gpu.predictions import share_right
from tvmconv.lab.bench.result import BenchResult, CaseResult, Entry
from tvmconv.machines.cuda import MACHINES
from tvmconv.measuring.suites import load, with_batch

GPU = MACHINES["cuda:sm_90"]
REAL = {"lanes": 0.7, "l2_rate": 0.6, "memory_rate": 0.8, "launch_seconds": 1.9}


def rows(noise: float = 0.0) -> list[MeasuredKernel]:
    """Layers of ResNet-50 at two batches as if the GPU had other rates."""
    found = []
    real = with_factors(GPU, REAL)
    for index, layer in enumerate([*load("resnet50"), *(with_batch(x, 32) for x in load("dnn12"))]):
        kernel = make_kernel(layer.workload, GPU, "implicit_gemm")
        true = make_kernel(layer.workload, real, "implicit_gemm", kernel.config)
        seconds = true.predicted_cycles / GPU.clock_hertz * (1 + noise * (index % 3 - 1))
        found.append(MeasuredKernel(layer.name, "tvmconv implicit_gemm", kernel, seconds))
    return found


def saved(measured: list[MeasuredKernel]) -> BenchResult:
    cases = tuple(
        CaseResult(
            row.case,
            "layer",
            str(row.kernel.workload),
            row.kernel.workload.flops,
            1,
            1,
            (
                Entry(
                    row.label,
                    "ok",
                    rounds=[[row.seconds]],
                    facts={
                        "workload": str(row.kernel.workload),
                        "algorithm": row.kernel.algorithm,
                        "knobs": row.kernel.config.to_json(),
                    },
                ),
                Entry("cudnn", "ok", rounds=[[row.seconds]]),
            ),
        )
        for row in measured
    )
    return BenchResult({"gpu": {"name": "a GPU", "target": "cuda:sm_90"}}, {}, cases)


def test_times_of_other_rates_are_found_again():
    known = rows()
    assert share_right(ratios(known, dict.fromkeys(FACTORS, 1.0))) < 0.5
    factors = fit(known)
    assert share_right(ratios(known, factors)) == 1.0
    assert factors["lanes"] == pytest.approx(REAL["lanes"], rel=0.1)


def test_a_report_tells_the_share_of_kernels_that_were_not_seen():
    report = fit_report([saved(rows(noise=0.1))])
    assert report.facts["kernels"] == len(rows())
    assert report.facts["share_right_unseen"] > 0.8
    assert report.facts["share_right_before"] < report.facts["share_right_after"]
    assert report.facts["gpu"] == "a GPU"


def test_too_little_is_not_fitted():
    with pytest.raises(InputError, match="3 measured kernels"):
        fit(rows()[:3])
    with pytest.raises(InputError, match="0 measured kernels"):
        fit_report([BenchResult({"cpu": "x"}, {}, ())])
