"""Kernels of GPUs over shapes that the emulator is too slow for, by PoCL, against float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.cuda import SM_80, SM_90, default_kernel
from tests.opencl import pocl, run_by_pocl
from tests.strategies import conv2d_workloads
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import Kernel, make_kernel

# sizes of real layers, ragged in channels, pixels and slices of the sum
LAYERS = [
    ("implicit_gemm", "mb2ic24ih29iw27oc70kh3ph1+bias+add+relu", {"split": 1, "pipeline": "none"}),
    ("implicit_gemm", "mb3ic200ih14oc130kh1sh2+bias", {}),
    ("winograd", "ic40ih27oc36kh3ph1+bias+relu", {"mh": 4, "mw": 4}),
    ("im2win", "ic3ih63iw59oc72kh7sh2ph3+bias+relu", {}),
    ("depthwise", "g72mb2ic72ih30oc72kh3sh2ph1+bias+clip(0,6)", {}),
    ("direct", "mb2ic515oc33ih3iw2kh2kw1+bias+add+relu", {}),
]
# with pipelines, and with the tiles that hold most sums, whose code takes PoCL seconds
LARGE = [
    ("implicit_gemm", "mb2ic24ih29iw27oc70kh3ph1+bias+add+relu", {}),
    ("winograd", "mb2ic20ih30iw26oc72kh3ph1+bias+relu", {"mh": 2, "mw": 2}),
    ("im2col", "g2mb2ic30ih19oc52kh3kw5sh2dh1+bias+relu", {}),
    (
        "implicit_gemm",
        "mb2ic64ih56oc128kh3ph1+bias+relu",
        {"m": 128, "p": 128, "k": 16, "split": 1},
    ),
    ("implicit_gemm", "mb2ic64ih56oc64kh3ph1+bias", {"m": 64, "p": 128, "k": 16, "split": 1}),
    ("winograd", "mb4ic64ih56oc128kh3ph1+bias+relu", {"m": 128, "p": 128, "k": 16, "split": 1}),
]


def check(kernel: Kernel) -> None:
    """1e-5 of the largest output, with any values in the memory before."""
    actual, expected = run_by_pocl(kernel)
    error = np.abs(actual - expected).max()
    assert error <= 1e-5 * max(np.abs(expected).max(), 1.0), (kernel, error)


@pytest.mark.parametrize(("algorithm", "problem", "knobs"), LAYERS)
def test_layers_are_right_by_pocl(algorithm, problem, knobs):
    pocl()
    check(default_kernel(problem, algorithm, SM_90, **knobs))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "problem", "knobs"), LARGE)
def test_large_tiles_are_right_by_pocl(algorithm, problem, knobs):
    pocl()
    check(default_kernel(problem, algorithm, SM_80, **knobs))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(workload=conv2d_workloads(data_layouts=("NCHW",), max_size=40, channels=(1, 3, 16, 33)))
def test_any_layer_is_right_by_pocl(workload: Conv2dWorkload):
    pocl()
    for name in registry.names(SM_90.kind):
        if registry.unavailable(name, workload, SM_90):
            continue
        try:
            kernel = make_kernel(workload, SM_90, name)
        except ConfigError:
            continue
        if not kernel.expression.precision(kernel.config):
            check(kernel)


def test_a_wrong_result_is_seen():
    """Weights of another order are."""
    pocl()
    kernel = default_kernel("ic8ih9oc20kh3+bias", "direct", SM_90)

    class Other(Kernel):
        def pack_weight(self, weight: np.ndarray) -> np.ndarray:
            return super().pack_weight(np.ascontiguousarray(weight[::-1]))

    with pytest.raises(AssertionError):
        check(Other(kernel.workload, kernel.machine, kernel.algorithm, kernel.config))
