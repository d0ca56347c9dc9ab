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
    normal,
    onnx_node,
    run,
)
from tvmconv.operators.grid_sample import Sampling, plane_samples, row_samples
from tvmconv.tir.annotations import TRANSPOSE_LANES


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
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
                size=(9, 11), method=mode, border=padding == "border", align_corners=bool(align)
            ),
        ),
        x.reshape(2, 7, 99),
        np.ascontiguousarray(grid.reshape(2, 600, 2).transpose(0, 2, 1)),
        machine=HOST,
    )
    assert_close(y.reshape(expected.shape), expected, 1e-5)


@pytest.mark.parametrize("padding", ["zeros", "border"])
@alternating_machines(
    "mode, channels, points",
    [("nearest", 22, 37), ("bilinear", 4, 16), ("nearest", 7, 1030), ("bilinear", 33, 600)],
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
            sampling=Sampling(
                size=(9, 11), method=mode, border=padding == "border", align_corners=False
            ),
            lanes=machine.lanes,
            transposed=TRANSPOSE_LANES,
        ),
        np.ascontiguousarray(x.reshape(2, channels, 99).transpose(0, 2, 1)),
        np.ascontiguousarray(grid.reshape(2, points, 2).transpose(0, 2, 1)),
        machine=machine,
    )
    np.testing.assert_allclose(y.reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
@alternating_machines("channels", [16, 35], MACHINES)
def test_points_outside_read_nothing_outside(mode, channels, machine):
    data, where = normal(1, 12, channels), np.full((1, 2, 16), -3, np.float32)
    built = Built(
        partial(
            row_samples,
            sampling=Sampling(size=(3, 4), method=mode, border=False, align_corners=False),
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
            sampling=Sampling(size=(8, 8), method="nearest", border=False, align_corners=False),
        ),
        x.reshape(1, 3, 64),
        np.ascontiguousarray(grid.reshape(1, -1, 2).transpose(0, 2, 1)),
        machine=HOST,
    )
    np.testing.assert_array_equal(y.reshape(expected.shape), expected)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_values_outside_are_zero_for_any_values_inside(mode):
    x = np.full((1, 1, 4), np.inf, np.float32)
    where = np.array([[[3.0, 1e30, -1e30], [0.0, 0.0, 0.0]]], np.float32)
    y = run(
        partial(
            plane_samples,
            sampling=Sampling(size=(2, 2), method=mode, border=False, align_corners=True),
        ),
        x,
        where,
        machine=HOST,
    )
    np.testing.assert_array_equal(y, np.zeros((1, 1, 3), np.float32))
