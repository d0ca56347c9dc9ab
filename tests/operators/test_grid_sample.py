"""Samples of planes against onnxruntime."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import tvm

from tests.kernels import alternating_machines
from tests.operators.harness import (
    HOST,
    MACHINES,
    Built,
    after_forbidden_page,
    assert_close,
    at_the_end_of_memory,
    normal,
    onnx_node,
    run,
)
from tvmconv.operators.grid_sample import plane_samples, row_samples
from tvmconv.operators.sample_places import Sampling
from tvmconv.tir.annotations import TRANSPOSE_LANES


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_agrees_with_onnxruntime(mode, padding, align):
    x = normal(2, 7, 9, 11)
    grid = np.random.default_rng(1).uniform(-1.4, 1.4, (2, 30, 20, 2)).astype(np.float32)
    grid[0, 0] = np.array([[-1, 1], [1, -1]], np.float32).repeat(10, 0)
    attrs = {"mode": mode, "padding_mode": padding, "align_corners": align}
    expected = onnx_node("GridSample", [x, grid], opset=16, **attrs)
    y = run(
        partial(
            plane_samples,
            sampling=Sampling(
                size=(9, 11), method=mode, padding=padding, align_corners=bool(align)
            ),
            lanes=HOST.lanes,
        ),
        x.reshape(2, 7, 99),
        np.ascontiguousarray(grid.reshape(2, 600, 2).transpose(0, 2, 1)),
        machine=HOST,
    )
    assert_close(y.reshape(expected.shape), expected, 1e-5)


@alternating_machines(
    "size, points, padding",
    [
        ((1, 2), 40, "border"),
        ((2, 3), 1, "zeros"),
        ((3, 2), 3, "reflection"),
        ((5, 1), 16, "border"),
        ((2, 2), 530, "zeros"),
        ((6, 5), 37, "zeros"),
    ],
    MACHINES,
)
def test_pairs_of_columns_are_inside_of_an_image(size, points, padding, machine):
    # tensors begin at a multiple of 64 bytes
    x = normal(1, 16, *size)
    grid = np.random.default_rng(1).uniform(-1.6, 1.6, (1, points, 1, 2)).astype(np.float32)
    grid[0, : points // 2 : 3] = 1
    grid[0, 1 : points // 2 : 3] = -1
    expected = onnx_node("GridSample", [x, grid], opset=16, padding_mode=padding)
    built = Built(
        partial(
            plane_samples,
            sampling=Sampling(size=size, method="bilinear", padding=padding, align_corners=False),
            lanes=machine.lanes,
        ),
        [x.reshape(1, 16, -1), np.ascontiguousarray(grid.reshape(1, points, 2).transpose(0, 2, 1))],
        machine,
    )
    for place in (after_forbidden_page, at_the_end_of_memory):
        built.inputs[0] = tvm.runtime.from_dlpack(place(x.reshape(1, 16, -1)))
        assert_close(built()[0].reshape(expected.shape), expected, 1e-6)


def test_pairs_of_columns_are_read_together():
    machine = MACHINES[1]
    code = Built(
        partial(
            plane_samples,
            sampling=Sampling(size=(8, 8), method="bilinear", padding="zeros", align_corners=False),
            lanes=machine.lanes,
        ),
        [normal(1, 4, 64), normal(1, 2, 64)],
        machine,
    ).code
    # two rows of each of 16 points in each of 4 planes
    assert code.count("vmovsd|vmovhps") >= 2 * 16 * 4


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@alternating_machines(
    "mode, channels, points",
    [
        *[("nearest", 22, 37), ("bilinear", 4, 16), ("nearest", 7, 1030), ("bilinear", 33, 600)],
        *[("bicubic", 5, 37), ("bicubic", 33, 530)],
    ],
    MACHINES,
)
def test_neighboring_channels_agree_with_onnxruntime(mode, channels, points, padding, machine):
    x = normal(2, channels, 9, 11)
    x[0, :, 2, 3] = np.inf
    grid = np.random.default_rng(1).uniform(-1.4, 1.4, (2, points, 1, 2)).astype(np.float32)
    expected = onnx_node("GridSample", [x, grid], opset=16, mode=mode, padding_mode=padding)
    y = run(
        partial(
            row_samples,
            sampling=Sampling(size=(9, 11), method=mode, padding=padding, align_corners=False),
            lanes=machine.lanes,
            transposed=TRANSPOSE_LANES,
        ),
        np.ascontiguousarray(x.reshape(2, channels, 99).transpose(0, 2, 1)),
        np.ascontiguousarray(grid.reshape(2, points, 2).transpose(0, 2, 1)),
        machine=machine,
    )
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
@alternating_machines("channels", [16, 35], MACHINES)
def test_points_outside_read_nothing_outside(mode, channels, machine):
    data, where = normal(1, 12, channels), np.full((1, 2, 16), -3, np.float32)
    built = Built(
        partial(
            row_samples,
            sampling=Sampling(size=(3, 4), method=mode, padding="zeros", align_corners=False),
            lanes=machine.lanes,
            transposed=TRANSPOSE_LANES,
        ),
        [data, where],
        machine,
    )
    built.inputs[0] = tvm.runtime.from_dlpack(after_forbidden_page(data))
    np.testing.assert_array_equal(built()[0], 0)


def test_of_two_nearest_elements_that_with_the_even_index():
    x = normal(1, 3, 8, 8)
    # multiples of half an element, which are exact
    steps = np.arange(-10, 11, dtype=np.float32) / 8
    grid = np.stack(np.meshgrid(steps, steps), -1)[None]
    expected = onnx_node("GridSample", [x, grid], opset=16, mode="nearest")
    y = run(
        partial(
            plane_samples,
            sampling=Sampling(size=(8, 8), method="nearest", padding="zeros", align_corners=False),
        ),
        x.reshape(1, 3, 64),
        np.ascontiguousarray(grid.reshape(1, -1, 2).transpose(0, 2, 1)),
        machine=HOST,
    )
    np.testing.assert_array_equal(y.reshape(expected.shape), expected)


@pytest.mark.parametrize("lanes", [0, HOST.lanes])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_values_outside_are_zero_for_any_values_inside(mode, lanes):
    x = np.full((1, 1, 4), np.inf, np.float32)
    # bicubic samples at 3 still have a neighbor inside
    near = 8.0 if mode == "bicubic" else 3.0
    where = np.array([[[near, 1e30, -1e30], [0.0, 0.0, 0.0]]], np.float32)
    y = run(
        partial(
            plane_samples,
            sampling=Sampling(size=(2, 2), method=mode, padding="zeros", align_corners=True),
            lanes=lanes,
        ),
        x,
        where,
        machine=HOST,
    )
    np.testing.assert_array_equal(y, np.zeros((1, 1, 3), np.float32))
