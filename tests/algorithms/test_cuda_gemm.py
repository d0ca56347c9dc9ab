"""Implicit GEMM of GPUs against float64, executed from its CUDA source on the processor."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from tests.cuda import SM_90, check_kernel
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.cuda.implicit_gemm import ImplicitGemm
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.selection.select import select

# every kind of layer, with knobs that cover every variant of the schedule, on layers of few blocks
LAYERS = {
    "3x3": ("ic8ih9oc40kh3ph1+bias+add+relu", {"m": 64, "p": 64, "slice": "channels"}),
    "1x1": ("mb2ic24ih5oc70kh1+bias", {"m": 128, "p": 128}),
    # 12x8 sums of a thread
    "tall": ("mb2ic12ih9oc100kh3ph1+bias+add+relu", {"m": 96, "slice": "channels"}),
    # warps share sums, and columns are grouped by fours of the sum
    "strided": ("ic8ih15oc33kh3sh2ph1+relu", {"k": 8, "slice": "channels"}),
    "dilated": ("ic8ih12iw9oc16kh3kw2dh1ph2", {"m": 64, "p": 128, "slice": "channels"}),
    "ragged": ("mb3ic11ih5iw7oc5kh2+bias+leakyrelu(0.25)", {"k": 8, "slice": "channels"}),
    "grouped": ("g3mb1ic24ih7oc30kh3ph1+bias+clip(0,6)", {"slice": "channels"}),
    "first": ("ic3ih13oc20kh5sh2ph2+bias+relu", {"k": 15, "slice": "row"}),
    "rows by fours": ("ic8ih6oc20kh2kw3ph1+bias", {"k": 24, "slice": "row"}),
    "window": ("ic3ih8oc20kh3pt1pl0pb0pr1", {"k": 27, "slice": "window"}),
    "parts of a window": ("ic3ih8oc20kh3ph1", {"k": 5, "slice": "window", "split": 2}),
    "1x1 by vectors": ("mb3ic8ih6oc20kh1+bias+relu", {}),
    "split": ("ic16ih7oc48kh3ph1+bias+add+relu", {"split": 6, "slice": "channels"}),
    "1-D": ("ic16ih1iw90oc24kh1kw5pw2", {"slice": "channels"}),
    "volume": ("ic4id5ih6oc20kd3kh3ph1pd1+bias", {"slice": "channels"}),
    "one buffer": ("ic12ih6oc20kh3ph1", {"slice": "channels", "pipeline": "single"}),
    "no pipeline": ("ic12ih6oc20kh3ph1", {"slice": "channels", "pipeline": "none"}),
}
# slices so short that generated code is compiled in a second
SMALL = {"m": 32, "p": 64, "k": 4, "split": 1, "pipeline": "double"}


# another one of the same kind is tested
SELDOM = {"ragged", "rows by fours", "1x1 by vectors", "no pipeline"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SELDOM)) for n in LAYERS]
)
def test_layers(name):
    problem, knobs = LAYERS[name]
    check_kernel(problem, "implicit_gemm", **{**SMALL, **knobs})


def supported(workload):
    return ImplicitGemm().unsupported(workload, SM_90) is None


def test_a_single_pixel_is_left_to_others():
    workload = Conv2dWorkload.parse("ic480ih1oc20kh1+bias+relu")
    assert not supported(workload)
    assert select(workload, SM_90).chosen.algorithm == "direct"


@pytest.mark.slow
@settings(max_examples=20)
@given(workload=conv2d_workloads(max_size=10).filter(supported))
def test_any_problem(workload):
    """With the tile that selection takes, which is compiled in seconds."""
    check_kernel(workload, "implicit_gemm")
