"""im2win and im2col of GPUs against float64, executed from their CUDA source on the processor."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from tests.cuda import SM_90, check_kernel, convolution_operands, default_kernel, source_of
from tests.strategies import conv2d_workloads
from tvmconv.algorithms.cuda.im2col import Im2col
from tvmconv.algorithms.cuda.im2win import Im2win, window_shape
from tvmconv.core.errors import ConfigError
from tvmconv.core.workload import Conv2dWorkload
from tvmconv.kernels import registry
from tvmconv.lab.bench.case_memory import layer_bytes
from tvmconv.lab.emulation.module import EmulatedModule
from tvmconv.measuring.suites import load

# slices so short that generated code is compiled in a second
TILE = {"m": 32, "p": 64, "k": 9, "split": 1, "pipeline": "double"}
STORED = {**TILE, "windows": "stored", "slice": "window"}
FUSED = {**STORED, "windows": "fused"}
ONE_SUM = {"m": 32, "p": 32}
WINDOWS = {
    "3x3": ("ic8ih9oc40kh3ph1+bias+add+relu", STORED),
    "3x3, fused": ("ic8ih9oc40kh3ph1+bias+add+relu", FUSED),
    "96 channels": ("ic4ih7oc96kh3+bias", {**STORED, "m": 64}),
    "more rows": ("ic3ih12iw9oc20kh5kw3pt1pl2pb0pr1", {**STORED, "k": 15}),
    "more columns, fused": ("ic3ih9iw12oc20kh3kw5pt1pl2pb0pr1", {**FUSED, "k": 15}),
    "column": ("ic3ih13oc20kh5sh2ph2+bias+relu", {**STORED, "slice": "column", "k": 15}),
    "column, fused": ("ic3ih13oc20kh5sh2ph2+bias", {**FUSED, "slice": "column", "k": 15}),
    "channels": ("ic8ih9oc33kh3sh2sw1dh1dw0ph1", {**STORED, "slice": "channels", "k": 4}),
    "dilated": ("ic4ih12iw9oc16kh3kw2dh1dw2ph2+leakyrelu(0.25)", {**STORED, "k": 6}),
    "dilated, fused": ("ic4ih12iw9oc16kh3kw2dh1dw2ph2", {**FUSED, "k": 6}),
    "K = 27 in slices of 8": ("ic3ih8oc20kh3pt1pl0pb0pr1", {**STORED, "k": 8}),
    "K = 147 in slices of 16": ("ic3ih17oc20kh7sh2+bias", {**STORED, "k": 16}),
    "K = 363 in columns": ("ic3ih27oc20kh11sh4", {**STORED, "slice": "column", "k": 11}),
    "batch": ("mb3ic11ih5iw7oc5kh2+bias+clip(0,6)", {**STORED, "k": 4}),
    "groups": ("g3mb2ic12ih7oc30kh3ph1+bias", STORED),
    "groups, fused": ("g3mb2ic12ih7oc30kh3ph1+bias", FUSED),
    "1x1": ("mb2ic12ih5oc20kh1+bias", {**STORED, "slice": "channels", "k": 4}),
    "1x1 by vectors": ("mb3ic8ih6oc20kh1", {**FUSED, "slice": "channels", "k": 4}),
    "rows apart": ("ic4ih12oc20kh2sh3", {**STORED, "k": 8}),
    "parts": ("ic12ih7oc48kh3ph1+bias+add+relu", {**STORED, "split": 4}),
    "scalars": ("ic8ih9oc40kh3ph1+bias+relu", {**STORED, "vector": 1}),
    "one sum a thread": ("ic8ih9oc40kh3ph1+bias+relu", {**STORED, "micro": 0, **ONE_SUM}),
    "copied at once": ("ic8ih9oc40kh3ph1+bias+relu", {**STORED, "pipeline": "none"}),
    "one buffer": ("ic8ih9oc40kh3ph1+bias+relu", {**STORED, "pipeline": "single"}),
    "base": ("ic8ih9oc40kh3ph1+bias+add+relu", {**STORED, "kernel": "base", **ONE_SUM}),
    "base, parts": ("g2ic8ih9oc20kh3ph1+bias", {**STORED, "kernel": "base", "split": 2, **ONE_SUM}),
    "base, fused": ("ic3ih9oc40kh3ph1", {**FUSED, "kernel": "base", **ONE_SUM}),
}
MATRICES = {
    "3x3": ("ic8ih9oc40kh3ph1+bias+add+relu", TILE),
    "96 channels": ("mb2ic4ih7oc96kh3+bias", {**TILE, "m": 64}),
    "K = 27 in slices of 8": ("ic3ih8oc20kh3pt1pl0pb0pr1", {**TILE, "k": 8}),
    "dilated": ("ic4ih12iw9oc16kh3kw2dh1dw2sh2ph2+relu", {**TILE, "k": 6}),
    "groups of two": ("g2mb2ic12ih7oc30kh3ph1+bias", TILE),
    "parts": ("ic12ih7oc48kh3ph1+bias+add+relu", {**TILE, "split": 4}),
    "one buffer": ("ic8ih9oc40kh3ph1+bias", {**TILE, "pipeline": "single"}),
    "copied at once": ("ic8ih9oc40kh3ph1+bias", {**TILE, "pipeline": "none"}),
}
# each takes the compiler seconds
QUICK = {
    *("3x3", "more rows", "column, fused", "K = 147 in slices of 16", "groups", "scalars"),
    *("one sum a thread", "base"),
}


def cases(problems):
    """One in three by default; the others take as long and are slow together."""
    return [pytest.param(n, marks=[] if n in QUICK else [pytest.mark.slow]) for n in problems]


@pytest.mark.parametrize("name", cases(WINDOWS))
def test_im2win(name):
    problem, knobs = WINDOWS[name]
    check_kernel(problem, "im2win", **knobs)


@pytest.mark.parametrize("name", cases(MATRICES))
def test_im2col(name):
    problem, knobs = MATRICES[name]
    check_kernel(problem, "im2col", **knobs)


@pytest.mark.parametrize(
    "problem",
    ["mb2ic3ih7iw9oc8kh3kw2sh2pt1pl2pb0pr1", "ic2ih9oc8kh2dh2", "ic3ih12oc8kh2sh3"],
)
def test_the_window_tensor_is_that_of_the_paper(problem):
    """``X[n, c, m, k Hf + u] = I[n, c, m s + u, k]``, bit by bit, with the padding's zeros."""
    kernel = default_kernel(problem, "im2win", SM_90, **{**STORED, "k": 4})
    w, source = kernel.workload, source_of(kernel)
    data = convolution_operands(kernel)[0][0]
    windows = np.full(window_shape(w), np.nan, np.float32)
    first = source.launches[0]
    module = EmulatedModule(source.text)
    arguments = [data if place == 0 else windows for place in first.arguments]
    module.run(first.kernel, first.grid, first.block, arguments)
    padded = np.pad(data, ((0, 0), (0, 0), (w.pad_top, w.pad_bottom), (w.pad_left, w.pad_right)))
    expected = np.stack(
        [
            padded[:, :, m * w.stride_h : m * w.stride_h + w.kernel_h * w.dilation_h : w.dilation_h]
            .transpose(0, 1, 3, 2)
            .reshape(w.batch, w.in_channels, -1)[:, :, : windows.shape[3]]
            for m in range(w.out_height)
        ],
        axis=2,
    )
    np.testing.assert_array_equal(windows, expected)


def test_an_example_of_the_paper():
    """Figure 2-5: 36 elements against 48."""
    workload = Conv2dWorkload.parse("ic3ih3oc8kh2")
    assert np.prod(window_shape(workload)) == 36
    config = registry.default_config("im2col", workload, SM_90).replace(k=12, p=64)
    # of 4 pixels; the product's tile has 64
    assert Im2col().stored_bytes(workload, config) // 4 == 48 // 4 * 64


@pytest.mark.parametrize("layer", load("dnn12"), ids=lambda layer: layer.name)
def test_buffers_of_the_twelve_layers(layer):
    """Equations 2-4, 2-5 and 2-7, of what kernels are given as workspace."""
    w = replace(layer.workload, batch=128)
    size = layer_bytes(w)
    fused, stored = registry.offers("im2win", w, SM_90)
    tensor = Im2win().stored_bytes(w, stored)
    # columns that no window touches are not stored
    untouched = (w.in_width - w.kernel_w) % w.stride_w
    assert tensor * w.in_width == size.im2win * (w.in_width - untouched)
    assert Im2win().stored_bytes(w, fused) == 0
    whole = stored.replace(split=1)
    assert Im2win().workspace_bytes(w, SM_90, whole) == tensor
    if Im2col().unsupported(w, SM_90) is None:
        config = registry.default_config("im2col", w, SM_90)
        matrix = Im2col().stored_bytes(w, config)
        rows, tile = Im2col().slices(w, config), config.int("p")
        assert size.im2col <= matrix
        assert matrix <= 4 * rows.count * rows.size * (w.batch * w.out_height * w.out_width + tile)
        assert tensor < matrix


def test_first_kernels_write_what_the_second_one_reads():
    for algorithm in ("im2win", "im2col"):
        kernel = default_kernel("ic8ih9oc40kh3ph1", algorithm, SM_90, **{**TILE, "k": 8})
        (name, blocks), _ = kernel.expression.stages
        assert name in ("window transform", "packing") and len(blocks) == 1
    assert (
        len(source_of(default_kernel("ic8ih9oc40kh3ph1", "im2win", SM_90, **FUSED)).launches) == 1
    )
    assert (
        len(source_of(default_kernel("ic8ih9oc40kh3ph1", "im2win", SM_90, **STORED)).launches) == 2
    )


@pytest.mark.parametrize(
    ("problem", "algorithm", "knobs", "sentence"),
    [
        ("ic8ih9oc40kh3ph1", "im2win", {"kernel": "base"}, "Expected one of 32x32"),
        ("ic8ih9oc40kh3ph1", "im2win", {"micro": 0}, "Expected one of 32x32"),
        ("ic8ih9oc40kh3ph1", "im2win", {"vector": 2}, "vector=2 .* must be one of 1, 4"),
        ("ic8ih9oc40kh3ph1", "im2win", {"slice": "row"}, "must be one of channels, column, window"),
        ("mb512ic64ih224oc64kh7sh2", "im2win", {"windows": "stored"}, "Set windows=fused"),
    ],
)
def test_configs_that_no_block_can_have_are_refused(problem, algorithm, knobs, sentence):
    workload = Conv2dWorkload.parse(problem)
    config = registry.default_config(algorithm, workload, SM_90).replace(m=64, p=64)
    with pytest.raises(ConfigError, match=sentence):
        registry.check(algorithm, workload, SM_90, config.replace(**knobs))


def test_a_matrix_beyond_32_bits_is_refused():
    """The paper's Conv4 at batch 128."""
    workload = Conv2dWorkload.parse("mb128ic64ih224oc64kh7sh2")
    reason = registry.unavailable("im2col", workload, SM_90)
    assert reason == "its matrix has 4769128448 values, and kernels index 2147483647"
    assert {c["windows"] for c in registry.offers("im2win", workload, SM_90)} == {"stored", "fused"}


def supported(workload):
    return Im2win().unsupported(workload, SM_90) is None


@pytest.mark.slow
@settings(max_examples=8)
@given(workload=conv2d_workloads(max_size=10).filter(supported))
def test_any_problem(workload):
    """With the tiles that selection takes, which are compiled in seconds."""
    for config in registry.offers("im2win", workload, SM_90):
        check_kernel(workload, "im2win", **config)
    check_kernel(workload, "im2col")
