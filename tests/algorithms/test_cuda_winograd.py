"""Winograd convolution of GPUs against float64, executed from its CUDA source on the processor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies

from tests.cuda import SM_90, check_kernel, default_kernel, run_kernel, run_source, source_of
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.cuda.winograd import Winograd
from tvmconv.core.errors import ArtifactError, ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.kernels.kernel import make_kernel
from tvmconv.machines.presets import MACHINES

# every kind of layer and tile: padding of 0, 1 and 2, sides that no tile divides, and sides that
# all tiles divide. Blocks have one or more images, tiles or slices. There are groups and every kind
# of epilogue
LAYERS = {
    "F(2), ragged": ("ic8ih9oc40kh3ph1+bias+add+relu", 2, 2),
    "F(4), ragged": ("ic8ih9oc40kh3ph1+bias+add+relu", 4, 4),
    "F(3)": ("mb2ic5ih7iw11oc6kh3+leakyrelu(0.25)", 3, 3),
    "F(2), vectors": ("mb2ic9ih10iw12oc8kh3ph1+bias+add+clip(0,6)", 2, 2),
    "F(4), vectors": ("mb3ic16ih8iw12oc33kh3ph1+bias+add+relu", 4, 4),
    "no padding": ("ic7ih12iw9oc9kh3+bias+sigmoid", 4, 4),
    "wide padding": ("ic4ih6iw5oc8kh3ph2+hardswish", 4, 4),
    "padding of one side": ("ic4ih8oc5kh3pt2pl0pb0pr1+bias", 2, 2),
    "groups": ("g3mb2ic15ih7oc21kh3ph1+bias+add+relu", 2, 2),
    "groups, F(4)": ("g2ic40ih9oc10kh3ph1+bias", 4, 4),
    "smaller than a tile": ("mb2ic8ih2iw3oc8kh3ph1", 4, 4),
    "5x5": ("ic6ih9oc7kh5ph2+bias", 2, 2),
    "1-D": ("ic8ih1iw30oc9kh1kw3pw1+bias", 1, 4),
    "unequal": ("ic6ih11oc7kh3kw2ph1+bias", 4, 3),
}
SMALL = {"m": 32, "p": 64, "k": 4, "pipeline": "double", "threads": 64, "split": 1}


# another one of the same kind is tested
SELDOM = {"F(2), ragged", "F(2), vectors", "groups, F(4)"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SELDOM)) for n in LAYERS]
)
def test_layers(name):
    problem, mh, mw = LAYERS[name]
    check_kernel(problem, "winograd", **SMALL, mh=mh, mw=mw)


@pytest.mark.parametrize(
    "knobs",
    [
        {"pipeline": "single"},
        {"pipeline": "none"},
        {"k": 16},
        {"m": 64, "p": 128, "threads": 128},
        {"m": 128, "p": 128, "threads": 64},
        pytest.param({"m": 96}, marks=pytest.mark.slow),
        pytest.param({"split": 3}, marks=pytest.mark.slow),
        {"k": 2, "split": 6, "mh": 2, "mw": 3},
    ],
    ids=str,
)
def test_blocks(knobs):
    problem = "mb5ic12ih13oc70kh3ph1+bias+relu"
    check_kernel(problem, "winograd", **{**SMALL, "mh": 4, "mw": 4, **knobs})


@pytest.mark.parametrize("mh", [2, 3, 4])
def test_the_error_is_the_estimate(mh):
    """Within what the estimate was for the processors' form, whose matrices these are."""
    problem = "ic64ih12oc32kh3ph1"
    kernel = default_kernel(problem, "winograd", SM_90, **{**SMALL, "k": 16, "mh": mh, "mw": mh})
    actual, expected = run_kernel(kernel)
    error = np.abs(actual - expected).max() / np.abs(expected).max()
    estimate = kernel.expression.error_estimate(kernel.workload, SM_90, kernel.config)
    assert estimate / 4 <= error <= 1.5 * estimate


def test_weights_are_those_of_the_processors_form():
    """Same values as its packed weights, in another order."""
    workload = Conv2dWorkload.parse("ic20ih12oc24kh3ph1")
    weight = np.random.default_rng(0).standard_normal(workload.weight_shape, "float32")
    processor = MACHINES["x86-64-v3"]
    config = registry.default_config("winograd", workload, processor).replace(mh=4, mw=4)
    config = config.replace(fused=0, rh=1, rw=3, rt=1, kr=1)
    theirs = make_kernel(workload, processor, "winograd", config).pack_weight(weight)
    ours = default_kernel(workload, "winograd", SM_90, **SMALL, mh=4, mw=4).pack_weight(weight)
    for product in range(36):
        row, column = divmod(product, 6)
        blocked = theirs[column * 6 + row].reshape(3, -1, 8)[:, :20]
        mine = ours[product, 0].reshape(20, -1)
        assert np.array_equal(blocked.transpose(1, 0, 2).reshape(20, -1), mine[:, :24])
        assert not mine[:, 24:].any()


@pytest.mark.parametrize("lost", range(5))
def test_a_missing_barrier_is_found(lost):
    kernel = default_kernel("mb2ic20ih8oc20kh3ph1", "winograd", SM_90, **SMALL, mh=2, mw=2)
    source = source_of(kernel)
    barriers = source.text.split("__syncthreads();")
    # a pair of slices, the last one, and the sums of warps
    assert len(barriers) == 6
    text = (
        "__syncthreads();".join(barriers[: lost + 1])
        + ";"
        + "__syncthreads();".join(barriers[lost + 1 :])
    )
    given_arrays = [np.zeros(shape, "f4") for shape in source.shapes[:3]]
    for array in given_arrays[:2]:
        array[...] = np.random.default_rng(1).standard_normal(array.shape)
    with pytest.raises(ArtifactError, match="a barrier is missing"):
        run_source(replace(source, text=text), given_arrays, 2)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        ("ic8ih9oc8kh3sh2", "only at stride 1, not 2x2"),
        ("ic8ih9oc8kh3dh1", "dense kernels, not dilation 2x2"),
        ("ic8ih9oc8kh1", "a 1x1 kernel has no products to save"),
        ("ic8ih9oc8kh7ph3", "a 7x7 kernel needs more than 6 points"),
        ("ic4id5ih6oc20kd3kh3ph1pd1", "it sums over no depth; use implicit_gemm"),
        ("mb512ic512ih224oc512kh3ph1", "more than 2147483647 transformed values"),
    ],
)
def test_what_it_does_not_compute_is_a_reason(problem, reason):
    workload = Conv2dWorkload.parse(problem)
    assert reason in registry.unavailable("winograd", workload, SM_90)


@pytest.mark.parametrize(
    ("knobs", "sentence"),
    [
        ({"mh": 5}, r"mh=5 mw=2 .* at most 6 products along an axis \(mh \+ 3 - 1"),
        ({"mw": 0}, "mh=2 mw=0 .* Expected 1 or more"),
        ({"m": 48}, "tile m=48 p=64 .* Expected one of 128x128"),
        ({"split": 4}, "split=4 .* does not divide its 2 slices"),
        ({"threads": 128}, "threads=128 .* Expected one of 64, 128 that divides p=64"),
    ],
)
def test_configs_that_have_no_kernel_are_refused(knobs, sentence):
    workload = Conv2dWorkload.parse("ic8ih9oc40kh3ph1")
    config = registry.default_config("winograd", workload, SM_90).replace(**SMALL, mh=2, mw=2)
    with pytest.raises(ConfigError, match=sentence):
        registry.check("winograd", workload, SM_90, config.replace(**knobs))


def supported(workload):
    return Winograd().unsupported(workload, SM_90) is None


@pytest.mark.slow
@settings(max_examples=20)
@given(
    workload=conv2d_workloads(max_size=12, max_stride=1, max_dilation=1).filter(supported),
    choice=strategies.integers(0, 3),
)
def test_any_problem(workload, choice):
    offers = registry.offers("winograd", workload, SM_90)
    taken = offers[choice % len(offers)]
    check_kernel(workload, "winograd", **SMALL, mh=taken["mh"], mw=taken["mw"])
