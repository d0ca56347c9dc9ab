"""What fuzzing takes as no reference, and that it takes no more than that."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import make_model, noise, run_reference
from tests.fuzz.disputed import UNDEFINED, ranks_nan, reference, skips_input
from tests.fuzz.models import _nudged, compare, rounds_to_half


def test_the_mended_normalisation_agrees_with_onnxruntime() -> None:
    x = noise(3, 4)
    for attributes in ({"p": 1}, {"p": 2, "axis": 0}, {}):
        node = helper.make_node("LpNormalization", ["x"], ["y"], **attributes)
        model = make_model([node], {"x": x.shape}, ["y"])
        mended = reference(model).run(None, {"x": x})[0]
        np.testing.assert_allclose(mended, run_reference(model, {"x": x})[0], 1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_the_mended_pooling_agrees_with_onnxruntime(stride: int) -> None:
    x = noise(1, 2, 5, 6)

    def pool(*pads: int) -> onnx.ModelProto:
        node = helper.make_node(
            "MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[stride] * 2, pads=pads
        )
        return make_model([node], {"x": x.shape}, ["y"])

    for pads in ((0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 0), (2, 0, 1, 2)):
        mended = reference(pool(*pads)).run(None, {"x": x})[0]
        np.testing.assert_array_equal(mended, run_reference(pool(*pads), {"x": x})[0])
    with pytest.raises(ValueError, match="in the padding"):
        reference(pool(0, 0, 4, 0)).run(None, {"x": x})


@pytest.mark.parametrize("operator", ["ArgMax", "ReduceMin"])
def test_ranks_of_nan(operator: str) -> None:
    nodes = [helper.make_node("Acos", ["x"], ["a"]), helper.make_node(operator, ["a"], ["y"])]
    model = make_model(nodes, {"x": (4,)}, ["y"])
    assert ranks_nan(model, {"x": np.array([0, 2, 0.5, 1], np.float32)})
    assert not ranks_nan(model, {"x": np.array([0, 1, 0.5, 1], np.float32)})
    del model.graph.node[1]
    assert not ranks_nan(model, {"x": np.array([0, 2, 0.5, 1], np.float32)})


@pytest.mark.parametrize(("stride", "skips"), [(6, True), (4, True), (3, False), (1, False)])
def test_negative_automatic_padding(stride: int, skips: bool) -> None:
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[3, 3], strides=[stride, 2], auto_pad="SAME_UPPER"
    )
    assert skips_input(make_model([node], {"x": (1, 1, 5, 5)}, ["y"])) == skips


def _sample(place: float) -> onnx.ModelProto:
    grid = np.zeros((1, 2, 2, 2), np.float32)
    grid[0, 0, 0, 0] = place
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], padding_mode="reflection")
    return make_model([node], {"x": (1, 1, 3, 2)}, ["y"], {"grid": grid}, opset=22)


@pytest.mark.parametrize("place", [np.inf, np.nan])
def test_the_reference_says_so_where_a_cast_is_undefined(place: float) -> None:
    with np.errstate(all="ignore"), pytest.raises((OverflowError, ValueError)) as caught:
        reference(_sample(place)).run(None, {"x": noise(1, 1, 3, 2)})
    assert str(caught.value) in UNDEFINED


def test_what_is_defined_is_still_compared() -> None:
    assert compare(_sample(0.25).SerializeToString(), lambda stage: None)


def test_nudges_reach_every_floating_point_type() -> None:
    for dtype in ("float16", "float32", "float64"):
        x = noise(1000).astype(dtype)
        moved = _nudged({"x": x})["x"]
        assert moved.dtype == dtype
        assert (moved != x).mean() > 0.2
        np.testing.assert_allclose(moved, x, 5 * max(1e-6, float(np.finfo(dtype).eps)))


def test_half_precision_on_the_way_counts() -> None:
    """Norms are rounded to it here and in onnx.reference; onnxruntime leaves the Casts out."""
    half, single = onnx.TensorProto.FLOAT16, onnx.TensorProto.FLOAT
    for middle in (half, single):
        nodes = [
            helper.make_node("Cast", ["x"], ["a"], to=middle),
            helper.make_node("LpNormalization", ["a"], ["b"]),
            helper.make_node("Cast", ["b"], ["y"], to=single),
        ]
        model = make_model(nodes, {"x": (64, 64)}, ["y"], opset=22)
        assert rounds_to_half(model) == (middle == half)
        assert compare(model.SerializeToString(), lambda stage: None)
