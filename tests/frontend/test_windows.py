"""Convolution, transposed convolution and pooling windows against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import (
    Build,
    make_model,
    noise,
    run,
    run_reference,
    tvm_pipeline,
    whole_build,
)

# the importer alone by default, and with everything after it in the slow run
builds = pytest.mark.parametrize(
    "build", [tvm_pipeline, pytest.param(whole_build, marks=pytest.mark.slow)]
)

CONVOLUTIONS = {
    "plain": ((2, 3, 9, 8), (4, 3, 3, 3), {}),
    "four_pads_and_strides": (
        (1, 3, 11, 10),
        (4, 3, 3, 2),
        {"pads": [2, 0, 1, 3], "strides": [2, 3]},
    ),
    "same_upper_stride": (
        (1, 2, 10, 7),
        (3, 2, 3, 4),
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
    ),
    "same_lower_stride": (
        (1, 2, 10, 7),
        (3, 2, 4, 3),
        {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
    ),
    "valid": ((1, 2, 7, 7), (3, 2, 3, 3), {"auto_pad": "VALID", "strides": [2, 1]}),
    "dilated": ((1, 3, 12, 12), (4, 3, 3, 3), {"dilations": [2, 3], "pads": [2, 3, 2, 3]}),
    "groups": ((1, 6, 8, 8), (9, 2, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    "depthwise": ((1, 5, 8, 8), (5, 1, 3, 3), {"group": 5, "pads": [1, 1, 1, 1]}),
    "depthwise_multiplier": ((1, 4, 8, 8), (8, 1, 3, 3), {"group": 4, "strides": [2, 2]}),
    "one_dimension": ((2, 3, 20), (5, 3, 4), {"strides": [2], "pads": [1, 2], "dilations": [2]}),
    "one_dimension_same": ((1, 4, 13), (4, 2, 3), {"auto_pad": "SAME_UPPER", "group": 2}),
    "three_dimensions": ((1, 2, 5, 6, 4), (3, 2, 2, 3, 2), {"pads": [1, 0, 0, 0, 1, 1]}),
}


@builds
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution(name: str, build: Build) -> None:
    data, weight, attributes = CONVOLUTIONS[name]
    _compare(
        helper.make_node("Conv", ["x", "w", "b"], ["y"], "conv", **attributes),
        data,
        {"w": noise(*weight, seed=1), "b": noise(weight[0], seed=2)},
        build,
    )


TRANSPOSED = {
    "plain": ((1, 3, 5, 4), (3, 2, 3, 3), {}),
    "stride_and_pads": ((2, 3, 5, 4), (3, 2, 3, 4), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "output_padding": (
        (1, 3, 5, 4),
        (3, 2, 3, 3),
        {"strides": [3, 2], "output_padding": [2, 1], "pads": [1, 1, 1, 1]},
    ),
    "output_shape": (
        (1, 3, 5, 4),
        (3, 2, 3, 3),
        {"strides": [2, 2], "output_shape": [10, 8]},
    ),
    "same_upper": ((1, 2, 5, 4), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same_lower": ((1, 2, 5, 4), (2, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "dilated": ((1, 2, 5, 6), (2, 3, 3, 2), {"dilations": [2, 3], "strides": [2, 1]}),
    "groups": ((1, 6, 4, 5), (6, 2, 3, 3), {"group": 3, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "one_dimension": ((1, 3, 7), (3, 2, 4), {"strides": [2], "pads": [1, 1]}),
}


@builds
@pytest.mark.parametrize("name", TRANSPOSED)
def test_transposed_convolution(name: str, build: Build) -> None:
    data, weight, attributes = TRANSPOSED[name]
    channels = weight[1] * attributes.get("group", 1)
    _compare(
        helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], "up", **attributes),
        data,
        {"w": noise(*weight, seed=1), "b": noise(channels, seed=2)},
        build,
    )


POOLS = {
    "stride_pads": {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [1, 0, 1, 1]},
    "ceil": {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
    "ceil_pads": {
        "kernel_shape": [3, 3],
        "strides": [2, 2],
        "ceil_mode": 1,
        "pads": [1, 0, 0, 1],
    },
    "ceil_window_outside": {
        "kernel_shape": [1, 2],
        "strides": [4, 5],
        "ceil_mode": 1,
        "pads": [0, 1, 0, 1],
    },
    "same_upper": {"kernel_shape": [3, 2], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    "same_lower": {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    "dilated": {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 1, 1, 1]},
}


@builds
@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool", "AveragePool+pad"])
def test_pooling(name: str, kind: str, build: Build) -> None:
    attributes = dict(POOLS[name])
    if kind == "AveragePool+pad":
        attributes["count_include_pad"] = 1
    node = helper.make_node(kind.split("+")[0], ["x"], ["y"], "pool", **attributes)
    _compare(node, (2, 3, 10, 11), {}, build, opset=19)


@builds
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_pooling_of_one_dimension(kind: str, build: Build) -> None:
    node = helper.make_node(
        kind, ["x"], ["y"], "pool", kernel_shape=[3], strides=[2], pads=[1, 1], ceil_mode=1
    )
    _compare(node, (2, 3, 10), {}, build, opset=19)


def _compare(
    node: onnx.NodeProto,
    data: tuple[int, ...],
    constants: dict[str, np.ndarray],
    build: Build,
    opset: int = 17,
) -> None:
    model = make_model([node], {"x": data}, ["y"], constants, opset=opset)
    feeds = {"x": noise(*data)}
    wanted, actual = run_reference(model, feeds)[0], run(model, feeds, build)[0]
    assert wanted.shape == actual.shape
    np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)
