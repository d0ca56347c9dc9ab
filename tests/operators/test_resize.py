from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model
from tests.frontend.onnx_runner import run as run_model
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


def by_positions(x: np.ndarray, length: int, mode: str) -> np.ndarray:
    """The last axis resized by float64 positions; onnxruntime and torch compute them in float32."""
    size, place = x.shape[-1], np.arange(length, dtype=np.float64)
    positions = {
        "half_pixel": (place + 0.5) * size / length - 0.5,
        "align_corners": place * (size - 1) / (length - 1),
        "asymmetric": place * size / length,
    }
    low = np.floor(positions[mode])
    first, second = (np.clip(low + i, 0, size - 1).astype(int) for i in (0, 1))
    share, x = positions[mode] - low, x.astype(np.float64)
    return x[..., first] * (1 - share) + x[..., second] * share


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
def test_positions_along_thousands_of_elements_are_exact(mode):
    x = normal(1, 20, 2, 4096)
    size = (2, 12288)
    y = run(lambda t: resize_blocked(t, size, "linear", mode), block(x, HOST.lanes), machine=HOST)
    assert_close(unblock(y, 20), by_positions(x, size[1], mode), 2e-7)
    rows = {"x": (2, 3, 4096)}
    node = helper.make_node(
        "Resize", ["x", "", "", "s"], ["y"], mode="linear", coordinate_transformation_mode=mode
    )
    model = make_model([node], rows, ["y"], {"s": np.array([2, 3, 12288])})
    x = normal(*rows["x"])
    assert_close(run_model(model, {"x": x})[0], by_positions(x, 12288, mode), 2e-7)


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
