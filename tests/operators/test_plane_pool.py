"""Pools of plain planes against onnxruntime: each way in which an axis is pooled."""

from __future__ import annotations

import numpy as np
import pytest

from tests.operators.harness import HOST, Built, assert_close, normal, onnx_node, run
from tests.operators.test_pool import attributes, windows
from tvmconv.operators.plane_pool import plane_pool

# planes, rows, columns; then kernel, strides, pads (top, left, bottom, right), dilations
CASES = [
    ((3, 21, 75), (3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    ((2, 14, 15), (2, 3), (2, 2), (0, 1, 1, 0), (1, 1)),
    ((2, 40, 41), (13, 21), (1, 1), (6, 10, 6, 10), (1, 1)),
    ((2, 45, 50), (11, 9), (2, 3), (5, 1, 3, 8), (2, 2)),
    ((2, 40, 33), (40, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    ((3, 30, 5), (12, 1), (6, 1), (5, 0, 2, 0), (1, 1)),
    ((1, 12, 1100), (3, 1), (1, 1), (1, 0, 1, 0), (1, 1)),
    ((5, 1, 300), (1, 99), (1, 1), (0, 49, 0, 49), (1, 1)),
    ((2, 9, 61), (5, 5), (4, 6), (2, 2, 2, 2), (1, 1)),
    ((2, 3, 160), (1, 7), (1, 7), (0, 3, 0, 3), (1, 1)),
    # groups of small planes
    ((107, 5, 5), (2, 2), (1, 2), (0, 0, 0, 0), (1, 1)),
    ((53, 4, 13), (3, 10), (2, 2), (1, 4, 1, 5), (1, 1)),
    ((61, 10, 7), (9, 2), (7, 2), (4, 1, 4, 0), (1, 1)),
    # one result of each line
    ((53, 13, 5), (4, 3), (4, 3), (0, 0, 0, 0), (1, 1)),
    ((41, 13, 6), (2, 5), (2, 5), (1, 0, 1, 0), (1, 1)),
    ((37, 7, 10), (3, 9), (3, 9), (0, 0, 0, 0), (1, 1)),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_agrees_with_onnxruntime(case):
    shape, *window = case
    x, (rows, columns) = normal(*shape), windows(*window)
    lanes = HOST.lanes
    built = Built(
        lambda t: [
            plane_pool(t, rows, columns, "max", lanes),
            plane_pool(t, rows, columns, "avg", lanes),
            plane_pool(t, rows, columns, "avg", lanes, count_include_pad=True),
            plane_pool(t, rows, columns, "sum", lanes, power=2, root=True),
        ],
        [x],
        HOST,
    )
    largest, mean, counted, norm = built()
    image, attrs = [x[None]], attributes(*window)
    np.testing.assert_array_equal(largest, onnx_node("MaxPool", image, **attrs)[0])
    assert_close(mean, onnx_node("AveragePool", image, **attrs)[0])
    assert_close(counted, onnx_node("AveragePool", image, count_include_pad=1, **attrs)[0])
    assert_close(norm, onnx_node("LpPool", image, p=2, **attrs)[0])


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("case", [CASES[0], CASES[1], CASES[3], CASES[4], CASES[8]], ids=str)
def test_maxima_of_bytes(case, dtype):
    shape, *window = case
    x, (rows, columns) = (50 * normal(*shape)).astype(np.int8).astype(dtype), windows(*window)
    y = run(lambda t: plane_pool(t, rows, columns, "max", HOST.lanes), x, machine=HOST)
    attrs = attributes(*window)
    np.testing.assert_array_equal(y, onnx_node("MaxPool", [x[None]], result=dtype, **attrs)[0])


def test_rounds_the_size_up():
    x, window = normal(2, 14, 17), ((3, 9), (2, 4), (0, 1, 1, 0), (1, 1))
    rows, columns = windows(*window, ceil=1)
    attrs = attributes(*window, ceil=1)
    for kind, op in (("max", "MaxPool"), ("avg", "AveragePool")):
        y = run(lambda t, k=kind: plane_pool(t, rows, columns, k, HOST.lanes), x, machine=HOST)
        assert_close(y, onnx_node(op, [x[None]], **attrs)[0])


@pytest.mark.parametrize("kernel", [3, 12])
def test_what_is_not_finite_stays_in_its_windows(kernel):
    """A running sum would carry NaN and infinity on to the end of the row."""
    x = normal(1, 30, 40)
    x[0, 3, 5], x[0, 20, 30] = np.nan, np.inf
    window = ((kernel, kernel), (1, 1), (1, 1, 1, 1), (1, 1))
    rows, columns = windows(*window)
    y = run(lambda t: plane_pool(t, rows, columns, "avg", HOST.lanes), x, machine=HOST)
    wanted = onnx_node("AveragePool", [x[None]], **attributes(*window))[0]
    np.testing.assert_allclose(y, wanted, atol=1e-6)


def test_a_window_of_minus_infinity():
    x = np.full((1, 20, 20), -np.inf, np.float32)
    rows, columns = windows((3, 11), (1, 1), (1, 5, 1, 5), (1, 1))
    y = run(lambda t: plane_pool(t, rows, columns, "max", HOST.lanes), x, machine=HOST)
    np.testing.assert_array_equal(y, x)


def test_float16_is_summed_as_float32():
    x = np.full((2, 64, 64), 3000, np.float16)
    rows, columns = windows((64, 64), (1, 1), (0, 0, 0, 0), (1, 1))
    y = run(lambda t: plane_pool(t, rows, columns, "avg", HOST.lanes), x, machine=HOST)
    np.testing.assert_array_equal(y, np.full((2, 1, 1), 3000, np.float16))
