"""NaN, infinities and overflow in compiled graphs against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference

NAN, INF = float("nan"), float("inf")
VALUES = [NAN, INF, -INF, 0.0, -0.0, 1.5, -1.5, 3e38, -3e38, 1e-40, 80.0, -104.0, 0.3, -20.0]
SHAPE = (1, 16, 3, 6)
CONSTANTS = {
    "weight": np.ones((16, 1, 1, 1), np.float32),
    "two": np.float32(2),
    "low": np.float32(-1),
    "nan": np.float32(NAN),
    "vector": np.linspace(-1, 1, 16, dtype=np.float32).reshape(1, 16, 1, 1),
    "nan_vector": np.resize(np.float32([NAN, 1, -1]), 16).reshape(1, 16, 1, 1),
}
# operators that keep a NaN, with what else onnxruntime makes of the values above
OPERATORS: dict[str, tuple[str, list[str], dict[str, Any]]] = {
    "relu": ("Relu", [], {}),
    "leaky": ("LeakyRelu", [], {}),
    "clip": ("Clip", ["low", "two"], {}),
    "clip_below": ("Clip", ["nan", "two"], {}),
    "clip_above": ("Clip", ["low", "nan"], {}),
    "hard_sigmoid": ("HardSigmoid", [], {}),
    "hard_swish": ("HardSwish", [], {}),
    "elu": ("Elu", [], {}),
    "celu": ("Celu", [], {}),
    "selu": ("Selu", [], {}),
    "thresholded": ("ThresholdedRelu", [], {}),
    "softplus": ("Softplus", [], {}),
    "sigmoid": ("Sigmoid", [], {}),
    "tanh": ("Tanh", [], {}),
    "sign": ("Sign", [], {}),
    "abs": ("Abs", [], {}),
    "max": ("Max", ["two"], {}),
    "min": ("Min", ["two"], {}),
    "max_vector": ("Max", ["vector"], {}),
    "min_vector": ("Min", ["vector"], {}),
    "max_nan": ("Max", ["nan"], {}),
    "min_nan_vector": ("Min", ["nan_vector"], {}),
    "max_tensor": ("Max", ["other"], {}),
    "min_tensor": ("Min", ["other"], {}),
}


def images() -> dict[str, np.ndarray]:
    """Every value against every other one, among ordinary numbers."""
    x, other = noise(*SHAPE), noise(*SHAPE, seed=1)
    for i, value in enumerate(VALUES):
        x[0, i, 1] = value
        other[0, i, 1] = np.resize(VALUES[:4], 6)
        x[0, i, 2] = np.resize(VALUES[i:], 6)
    return {"x": x, "other": other}


@pytest.mark.parametrize("blocked", [False, True], ids=["plain", "blocked"])
def test_operators_keep_what_onnxruntime_keeps(blocked: bool) -> None:
    """All operators in one model, on the input or after a depthwise layer of ones."""
    before = "conv" if blocked else "x"
    nodes = [helper.make_node("Conv", ["x", "weight"], ["conv"], "conv", group=16)]
    for name, (operator, operands, attributes) in OPERATORS.items():
        nodes.append(helper.make_node(operator, [before, *operands], [name], **attributes))
    feeds = images()
    shapes = {name: value.shape for name, value in feeds.items()}
    model = make_model(nodes, shapes, [*OPERATORS, "conv"], CONSTANTS, opset=20)
    results = tvmconv.build(model, threads=1).run(feeds)
    for name, expected in zip(OPERATORS, run_reference(model, feeds), strict=False):
        np.testing.assert_allclose(results[name], expected, rtol=1e-4, atol=1e-6, err_msg=name)


@pytest.mark.parametrize(
    ("step", "operands"), [("Relu", []), ("Clip", ["low", "two"]), ("HardSwish", [])]
)
def test_fused_activations_keep_nan(step: str, operands: list[str]) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "weight"], ["conv"], "conv", group=16),
        helper.make_node(step, ["conv", *operands], ["y"]),
    ]
    feeds = {"x": images()["x"]}
    model = make_model(nodes, {"x": SHAPE}, ["y"], CONSTANTS)
    built = tvmconv.build(model, threads=1)
    assert len(built.decisions[0].workload.epilogue) == 1
    actual = built.run(feeds)["y"]
    np.testing.assert_allclose(actual, run_reference(model, feeds)[0], rtol=1e-5, atol=1e-6)


def test_the_logarithm_of_a_sum_of_exponentials_of_infinity_is_infinite() -> None:
    x = noise(2, 4)
    x[0, 1], x[1] = INF, -INF
    model = make_model(
        [helper.make_node("ReduceLogSumExp", ["x"], ["y"], axes=[1])], {"x": x.shape}, ["y"]
    )
    actual = tvmconv.build(model).run({"x": x})["y"]
    np.testing.assert_array_equal(actual.ravel(), [INF, -INF])


def network(channels: int, groups: int) -> onnx.ModelProto:
    """One 3x3 layer with bias and Relu, which Winograd would compute."""
    constants = {"w": noise(channels, channels // groups, 3, 3), "b": noise(channels, seed=1)}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv", pads=[1] * 4, group=groups),
        helper.make_node("Relu", ["c"], ["y"]),
    ]
    return make_model(nodes, {"x": (1, channels, 20, 20)}, ["y"], constants)


def kinds(values: np.ndarray) -> np.ndarray:
    """0 for finite elements, 1 and -1 for infinities, 2 for NaN."""
    return np.where(np.isnan(values), 2, np.where(np.isinf(values), np.sign(values), 0))


@pytest.mark.parametrize("groups", [1, 2, 32])
def test_a_model_built_for_any_values_confines_them(groups: int) -> None:
    model = network(32, groups)
    built = tvmconv.build(model, threads=1, finite=False)
    (decision,) = built.decisions
    assert "finite=False" in decision.reason
    assert built.manifest.policy["finite"] is False
    for value in (NAN, INF, -INF, 1e38):
        x = noise(1, 32, 20, 20)
        x[0, 3, 7, 9] = x[0, 1, 0, 0] = value
        actual, expected = built.run({"x": x})["y"], run_reference(model, {"x": x})[0]
        np.testing.assert_array_equal(kinds(actual), kinds(expected))
        finite = np.isfinite(expected)
        scale = np.abs(expected[finite]).max()
        np.testing.assert_allclose(actual[finite], expected[finite], rtol=1e-4, atol=1e-6 * scale)


def test_winograd_spreads_what_a_sum_confines() -> None:
    """The reason for the option: the default lets one overflow reach its whole tile."""
    model = network(32, 1)
    choice = {"algorithm": "winograd", "knobs": {"mh": 4, "mw": 4}}
    built = tvmconv.build(model, threads=1, overrides={"conv": choice})
    x = noise(1, 32, 20, 20)
    x[0, 3, 7, 9] = 1e38
    assert np.isfinite(run_reference(model, {"x": x})[0]).all()
    y = built.run({"x": x})["y"]
    assert not np.isfinite(y).all()
    touched = np.argwhere(~np.isfinite(y).all(axis=(0, 1)))
    assert np.ptp(touched, axis=0).max() < 12
