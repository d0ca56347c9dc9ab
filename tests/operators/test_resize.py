from __future__ import annotations

import numpy as np
import pytest

from tests.layout import block, unblock
from tests.operators.harness import HOST, assert_close, normal, onnx_node, run
from tvmconv.operators.resize import resize_blocked


@pytest.mark.parametrize("size", [(14, 18), (5, 20), (7, 9)], ids=str)
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
def test_linear(size, mode):
    x = normal(1, 20, 7, 9)
    y = run(lambda t: resize_blocked(t, size, "linear", mode), block(x, HOST.lanes), machine=HOST)
    sizes = np.array([1, 20, *size], np.int64)
    expected = onnx_node(
        "Resize",
        [x, None, None, sizes],
        mode="linear",
        coordinate_transformation_mode=mode,
    )
    assert_close(unblock(y, 20), expected)


@pytest.mark.parametrize("size", [(14, 18), (21, 9)], ids=str)
def test_nearest(size):
    x = normal(1, 20, 7, 9)
    y = run(
        lambda t: resize_blocked(t, size, "nearest_neighbor", "asymmetric", "floor"),
        block(x, HOST.lanes),
        machine=HOST,
    )
    sizes = np.array([1, 20, *size], np.int64)
    expected = onnx_node(
        "Resize",
        [x, None, None, sizes],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    np.testing.assert_array_equal(expected, unblock(y, 20))
