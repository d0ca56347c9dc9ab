"""Resizing of plain planes against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import HOST, assert_close, normal, onnx_node, run
from tvmconv.operators.plane_resize import Tables, Taps, plane_resize

# larger, smaller, one axis each, and blocks of rows of a large result
SIZES = [(14, 18), (5, 20), (20, 4), (3, 5), (40, 700)]


def resized(x, rows, columns):
    tables = Tables.of(rows, columns)
    return run(
        lambda data, integers, weights: plane_resize(data, integers, weights, tables, HOST.lanes),
        x,
        tables.integers,
        tables.weights,
        machine=HOST,
    )


def wanted(x, size, **attrs):
    sizes = np.array([1, x.shape[0], *size], np.int64)
    return onnx_node("Resize", [x[None], None, None, sizes], **attrs)[0]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
def test_linear(size, mode):
    x = normal(3, 7, 9)
    axes = [Taps.linear(n, m, mode) for n, m in zip(x.shape[1:], size, strict=True)]
    expected = wanted(x, size, mode="linear", coordinate_transformation_mode=mode)
    assert_close(resized(x, *axes), expected)


@pytest.mark.parametrize("size", [(14, 18), (21, 36), (7, 27), (28, 9)], ids=str)
def test_nearest(size):
    x = normal(3, 7, 9)
    axes = [Taps.nearest(n, m) for n, m in zip(x.shape[1:], size, strict=True)]
    attrs = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    expected = wanted(x, size, mode="nearest", **attrs)
    np.testing.assert_array_equal(resized(x, *axes), expected)


def test_large_results_are_made_in_blocks():
    rows, columns = Taps.linear(7, 40, "half_pixel"), Taps.linear(9, 700, "half_pixel")
    tables = Tables.of(rows, columns)
    assert tables.blocks > 1
    assert tables.lines < tables.read
