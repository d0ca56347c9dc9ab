"""Resize with antialiasing, and of regions, against onnx.reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx_runner import make_model, noise, run, whole_build
from tvmconv.core.errors import ModelError
from tvmconv.frontend.convert.resize_taps import in_order

X = noise(2, 3, 13, 17)


def _model(constants: dict[str, np.ndarray], **attrs: Any) -> Any:
    names = ["x", *(name if name in constants else "" for name in ("roi", "scales", "sizes"))]
    node = helper.make_node("Resize", names, ["y"], "resized", **attrs)
    return make_model([node], {"x": X.shape}, ["y"], constants, opset=19)


@pytest.mark.parametrize(
    ("sizes", "attrs"),
    [
        ((5, 7), {"mode": "linear"}),
        ((4, 30), {"mode": "cubic", "cubic_coeff_a": -0.5}),
        ((30, 20), {"mode": "cubic"}),
        ((6, 5), {"mode": "cubic", "exclude_outside": 1}),
        ((13, 3), {"mode": "linear", "coordinate_transformation_mode": "align_corners"}),
    ],
)
def test_antialias(sizes, attrs):
    constants = {"sizes": np.array([2, 3, *sizes], np.int64)}
    model = _model(constants, antialias=1, **attrs)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": X})
    (found,) = run(model, {"x": X}, whole_build)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_rows_are_resized_when_they_are_fewest():
    shape = (1, 8, 16, 16, 16)
    assert in_order([2, 3, 4], shape, (1, 8, 32, 32, 32)) == [4, 2, 3]
    assert in_order([2, 3, 4], shape, (1, 8, 32, 8, 8)) == [3, 4, 2]


@pytest.mark.parametrize(
    ("roi", "mode", "sizes"),
    [
        ((0.2, 0.1, 0.7, 1.3), "linear", (6, 9)),
        ((-0.3, 0.5, 1.2, 0.9), "cubic", (13, 1)),
        ((0.9, 0.8, 0.1, 0.2), "nearest", (7, 8)),
    ],
)
def test_regions(roi, mode, sizes):
    constants = {"roi": np.array(roi, np.float32), "sizes": np.array(sizes, np.int64)}
    model = _model(
        constants,
        mode=mode,
        axes=[2, 3],
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=7.5,
    )
    (expected,) = ReferenceEvaluator(model).run(None, {"x": X})
    (found,) = run(model, {"x": X}, whole_build)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("roi", [None, np.zeros(3, np.float32), np.full(8, np.inf, np.float32)])
def test_malformed_region(roi):
    constants = {"sizes": np.array([2, 3, 4, 5], np.int64)}
    if roi is not None:
        constants["roi"] = roi
    model = _model(constants, coordinate_transformation_mode="tf_crop_and_resize")
    with pytest.raises(ModelError, match=r"resized.*roi"):
        run(model, {"x": X}, whole_build)
