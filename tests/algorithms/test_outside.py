"""Windows partly or wholly in the padding, by every algorithm, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference
from tvmconv.core.errors import ConfigError
from tvmconv.kernels.registry import ALGORITHMS

# input, weight, attributes; in those named "outside" no tap of any window meets the image
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "outside": ((1, 8, 1, 1), (8, 8, 1, 1), {"strides": [3, 3], "pads": [1] * 4}),
    "outside_dilated": ((1, 8, 1, 1), (8, 8, 2, 2), {"dilations": [2, 2], "pads": [1] * 4}),
    "outside_columns": ((1, 8, 4, 1), (8, 8, 3, 1), {"strides": [1, 3], "pads": [1] * 4}),
    "outside_grouped": ((1, 8, 1, 1), (8, 4, 1, 1), {"strides": [3, 3], "pads": [1] * 4}),
    "outside_depthwise": ((1, 8, 1, 1), (8, 1, 1, 1), {"strides": [3, 3], "pads": [1] * 4}),
    "strided": ((1, 8, 2, 2), (8, 8, 1, 1), {"strides": [2, 2], "pads": [1] * 4}),
    "at_the_end": ((1, 8, 1, 2), (8, 8, 1, 1), {"strides": [2, 2], "pads": [0, 0, 3, 3]}),
    "wide": ((1, 8, 2, 3), (8, 8, 3, 3), {"pads": [4] * 4}),
    "wide_strided": ((1, 8, 2, 3), (8, 8, 3, 3), {"strides": [2, 2], "pads": [5, 4, 3, 6]}),
    "grouped": (
        (1, 8, 2, 3),
        (8, 4, 3, 2),
        {"strides": [2, 1], "pads": [4] * 4, "dilations": [1, 2]},
    ),
    "depthwise": ((1, 8, 2, 2), (8, 1, 3, 3), {"strides": [3, 3], "pads": [5] * 4}),
    # fewer channels than a block of any machine, as first layers have
    "first": ((1, 3, 2, 3), (8, 3, 3, 3), {"strides": [2, 2], "pads": [4] * 4}),
}
EPILOGUES = ("", "bias", "bias+relu", "add", "bias+add+clip")


def network(case: str, epilogue: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A convolution with the operators that become its epilogue, and inputs."""
    shape, weight, attributes = CASES[case]
    constants = {"w": noise(*weight), "b": noise(weight[0], seed=1)}
    constants |= {"low": np.float32(-0.5), "high": np.float32(0.5)}
    steps = epilogue.split("+")
    operands = ["x", "w", "b"] if "bias" in steps else ["x", "w"]
    groups = shape[1] // weight[1]
    nodes = [helper.make_node("Conv", operands, ["conv"], "conv", group=groups, **attributes)]
    feeds = {"x": noise(*shape, seed=2)}
    if "add" in steps:
        alone = make_model(nodes, {"x": shape}, ["conv"], constants)
        feeds["r"] = noise(*run_reference(alone, feeds)[0].shape, seed=3)
    for step in steps:
        operator = {"add": ["Add", "r"], "relu": ["Relu"], "clip": ["Clip", "low", "high"]}
        if step in operator:
            kind, *others = operator[step]
            nodes.append(helper.make_node(kind, [nodes[-1].output[0], *others], [step]))
    shapes = {name: value.shape for name, value in feeds.items()}
    return make_model(nodes, shapes, [nodes[-1].output[0]], constants), feeds


def check(case: str, epilogue: str, algorithm: str) -> bool:
    """Compare one algorithm with onnxruntime; False where it does not take the layer."""
    model, feeds = network(case, epilogue)
    try:
        built = tvmconv.build(model, threads=1, algorithms=[algorithm], error_budget=1e-3)
    except ConfigError as error:
        assert "no allowed algorithm computes" in str(error)
        return False
    (actual,) = built.run(feeds).values()
    np.testing.assert_allclose(actual, run_reference(model, feeds)[0], rtol=1e-4, atol=1e-5)
    return True


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("outside")])
@pytest.mark.parametrize("epilogue", ["", "bias+relu"])
def test_no_window_meets_the_image(case: str, epilogue: str) -> None:
    own = "depthwise" if "depthwise" in case else "direct"
    assert check(case, epilogue, own)


# strassen is for Arm alone, two are for integers
HERE = [name for name in ALGORITHMS if name not in ("strassen", "direct_bytes", "direct_tiles")]


@pytest.mark.parametrize("algorithm", HERE)
def test_a_window_in_the_padding_by_every_algorithm(algorithm: str) -> None:
    cases = ("depthwise", "first", "grouped", "strided", "wide")
    taken = [check(case, "bias+relu", algorithm) for case in cases]
    assert any(taken)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", HERE)
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_windows_in_the_padding(epilogue: str, algorithm: str) -> None:
    taken = [check(case, epilogue, algorithm) for case in CASES]
    assert any(taken)
