"""Bilinear samples against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import HOST, assert_close, normal, onnx_node, run
from tvmconv.operators.grid_sample import bilinear_samples


@pytest.mark.parametrize("align", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_bilinear(padding, align):
    x = normal(2, 7, 9, 11)
    grid = np.random.default_rng(1).uniform(-1.4, 1.4, (2, 30, 20, 2)).astype(np.float32)
    attrs = {"mode": "bilinear", "padding_mode": padding, "align_corners": align}
    expected = onnx_node("GridSample", [x, grid], opset=16, **attrs)
    y = run(
        lambda data, where: bilinear_samples(
            data, where, (9, 11), border=padding == "border", align_corners=bool(align)
        ),
        x.reshape(2, 7, 99),
        np.ascontiguousarray(grid.reshape(2, 600, 2).transpose(0, 2, 1)),
        machine=HOST,
    )
    assert_close(y.reshape(expected.shape), expected, 1e-5)


def test_values_outside_are_zero_for_any_values_inside():
    x = np.full((1, 1, 4), np.inf, np.float32)
    where = np.array([[[3.0, 1e30, -1e30], [0.0, 0.0, 0.0]]], np.float32)
    y = run(
        lambda data, grid: bilinear_samples(data, grid, (2, 2), border=False, align_corners=True),
        x,
        where,
        machine=HOST,
    )
    np.testing.assert_array_equal(y, np.zeros((1, 1, 3), np.float32))
