"""RoiAlign and MaxRoiPool against onnx.reference and onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import tvmconv
from tests.frontend.onnx_runner import noise, run_reference
from tvmconv.core.errors import DataError, ModelError


def _model(node: onnx.NodeProto, opset: int, **shapes: tuple[int, ...]) -> onnx.ModelProto:
    types = {"batch": TensorProto.INT64}
    inputs = [
        helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shape)
        for name, shape in shapes.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "test", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _regions(count: int, reach: float) -> np.ndarray:
    """Regions of all sizes, some of them outside of the image or upside down."""
    generator = np.random.default_rng(1)
    corners = generator.uniform(-0.3 * reach, reach, (count, 2))
    sizes = generator.uniform(-0.2 * reach, 0.9 * reach, (count, 2))
    return np.concatenate([corners, corners + sizes], axis=1).astype(np.float32)


@pytest.mark.parametrize(
    ("channels", "opset", "attrs"),
    [
        (70, 16, {"sampling_ratio": 2}),
        (3, 22, {"coordinate_transformation_mode": "output_half_pixel", "spatial_scale": 0.5}),
        (5, 16, {"mode": "max"}),
        (5, 10, {"sampling_ratio": 3}),
    ],
)
def test_roi_align(channels, opset, attrs):
    node = helper.make_node(
        "RoiAlign", ["x", "rois", "batch"], ["y"], output_height=3, output_width=2, **attrs
    )
    rois = _regions(20, 14 / attrs.get("spatial_scale", 1))
    feeds = {"x": noise(2, channels, 9, 12), "rois": rois, "batch": np.arange(20) % 2}
    model = _model(node, opset, **{name: value.shape for name, value in feeds.items()})
    # the reference moves the regions of operator set 10, too
    if opset == 10:
        (expected,) = run_reference(model, feeds)
    else:
        (expected,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(tvmconv.build(model).run(feeds)["y"], expected, atol=2e-5)


def test_max_roi_pool():
    node = helper.make_node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[3, 2])
    index = np.arange(20, dtype=np.float32)[:, None] % 2
    rois = np.concatenate([index, np.abs(_regions(20, 12))], axis=1)
    feeds = {"x": noise(2, 20, 9, 12), "rois": rois}
    model = _model(node, 16, x=(2, 20, 9, 12), rois=(20, 5))
    expected = run_reference(model, feeds)[0]
    np.testing.assert_array_equal(tvmconv.build(model).run(feeds)["y"], expected)


@pytest.mark.parametrize("channels", [5, 70])
@pytest.mark.parametrize("mode", ["avg", "max"])
def test_a_large_region_reads_only_its_samples(channels, mode):
    node = helper.make_node(
        "RoiAlign", ["x", "rois", "batch"], ["y"], output_height=3, output_width=2,
        sampling_ratio=2, mode=mode,
    )  # fmt: skip
    rois = np.array([[3.3, -5.1, 47.9, 38.2]], np.float32)
    feeds = {"x": noise(2, channels, 36, 50), "rois": rois, "batch": np.array([1])}
    model = _model(node, 16, **{name: value.shape for name, value in feeds.items()})
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    built = tvmconv.build(model)
    np.testing.assert_allclose(built.run(feeds)["y"], expected, atol=2e-5)
    assert "permute_dims" not in [call.operator for call in built.calls]


@pytest.mark.parametrize("mode", ["avg", "max"])
def test_regions_that_are_not_numbers_end(mode):
    node = helper.make_node(
        "RoiAlign", ["x", "rois", "batch"], ["y"], output_height=2, output_width=2, mode=mode
    )
    far = [np.nan, np.inf, -np.inf, 1e30, -1e30, 3.0]
    rois = np.array([[a, b, c, d] for a in far for b in far for c in far for d in far], np.float32)
    feeds = {"x": noise(1, 2, 4, 4), "rois": rois, "batch": np.zeros(len(rois), np.int64)}
    model = _model(node, 16, **{name: value.shape for name, value in feeds.items()})
    assert np.isfinite(tvmconv.build(model).run(feeds)["y"]).all()


def test_an_index_that_no_image_has():
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], "pooled")
    feeds = {"x": noise(2, 2, 4, 4), "rois": _regions(3, 4), "batch": np.array([0, 1, 2])}
    model = _model(node, 16, **{name: value.shape for name, value in feeds.items()})
    with pytest.raises(DataError, match=r"pooled.*batch.*0 to 1"):
        tvmconv.build(model).run(feeds)


@pytest.mark.parametrize(
    ("attrs", "shapes", "reason"),
    [
        ({"mode": "sum"}, {}, "mode='sum'"),
        ({"coordinate_transformation_mode": "pixel"}, {}, "coordinate_transformation_mode"),
        ({}, {"batch": (2,)}, "mismatch"),
        ({}, {"rois": (3, 5)}, "rois"),
    ],
)
def test_malformed(attrs: dict[str, Any], shapes: dict[str, Any], reason: str):
    node = helper.make_node("RoiAlign", ["x", "rois", "batch"], ["y"], "pooled", **attrs)
    known = {"x": (1, 2, 4, 4), "rois": (3, 4), "batch": (3,)}
    with pytest.raises(ModelError, match=f"pooled.*{reason}"):
        tvmconv.build(_model(node, 16, **{**known, **shapes}))
