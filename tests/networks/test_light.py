"""The nine whole networks of the onnx package's backend tests, which nobody here wrote.

As shipped, every weight is one constant, so every output is one number. The package's own
comparison with the expected outputs would not notice a swapped channel. The same graphs are
therefore also run with random weights, against onnxruntime.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tvmconv
from tests.networks.compare import assert_close, assert_matches_onnxruntime, onnxruntime_outputs

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
NAMES = sorted(path.stem for path in LIGHT.glob("*.onnx"))
# hundreds of megabytes of fully connected weights, or hundreds of nodes as in v1
_LARGE = {"light_bvlc_alexnet", "light_inception_v2", "light_vgg19", "light_zfnet512"}
# many layers, most of them alike: tests/program/test_joins.py has dense blocks, test_builders.py
# has residual ones
_LARGE |= {"light_densenet121", "light_resnet50"}
# SqueezeNet has branches that join, and AlexNet the local response normalization
_LARGE |= {"light_inception_v1"}
# small_network has depthwise layers, mixed_network a channel shuffle, tests/graph grouped layers
_LARGE |= {"light_shufflenet"}
# as shipped these say little that their random weights do not say better
_TOLD = set(NAMES) - {"light_squeezenet"}


def _but_slow(slow: set[str]) -> pytest.MarkDecorator:
    """Every network by its name, some of them in slow runs alone."""
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=[pytest.mark.slow] * (n in slow)) for n in NAMES]
    )


def test_all_nine_networks_are_there():
    assert len(NAMES) == 9


@_but_slow(_TOLD)
def test_expected_output(name):
    model = onnx.load(LIGHT / f"{name}.onnx")
    inputs = {value.name: _ramp(value) for value in _free_inputs(model)}
    expected = TensorProto.FromString((LIGHT / f"{name}_output_0.pb").read_bytes())
    # files of a few kilobytes that fill up to 550 MB of weights
    outputs = tvmconv.build(LIGHT / f"{name}.onnx", fold_budget=2**30).run(inputs)
    assert_close({model.graph.output[0].name: numpy_helper.to_array(expected)}, outputs)
    assert_close(onnxruntime_outputs(model, inputs), outputs)


@_but_slow(_LARGE)
def test_random_weights_match_onnxruntime(name):
    assert_matches_onnxruntime(with_random_weights(onnx.load(LIGHT / f"{name}.onnx")))


def _free_inputs(model: ModelProto) -> list[onnx.ValueInfoProto]:
    weights = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in weights]


def _shape(value: onnx.ValueInfoProto) -> list[int]:
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def _ramp(value: onnx.ValueInfoProto) -> np.ndarray:
    """The input for which the package holds the expected output."""
    shape = _shape(value)
    size = int(np.prod(shape))
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def with_random_weights(model: ModelProto) -> ModelProto:
    """The same graph, each ConstantOfShape weight replaced by seeded random values."""
    rng = np.random.default_rng(7)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in model.graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    nodes = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            nodes.append(node)
            continue
        name = node.output[0]
        value = _random_weight(rng, tuple(shapes[node.input[0]]), _role(name, users))
        model.graph.initializer.append(numpy_helper.from_array(value, name))
        # models of IR version 3 list initializers among their inputs
        info = helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape)
        model.graph.input.append(info)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    if nodes[-1].op_type == "Softmax":
        # depth without trained statistics saturates a softmax, which would hide errors
        shape = _shape(model.graph.output[0])
        logits = helper.make_tensor_value_info(nodes[-1].input[0], TensorProto.FLOAT, shape)
        model.graph.output.append(logits)
    return model


def _role(name: str, users: dict[str, list[onnx.NodeProto]]) -> str:
    """A constant's role for its consumer: ``scale``, ``variance`` or another weight."""
    user = users[name][0]
    if user.op_type == "BatchNormalization":
        position = list(user.input).index(name)
        return {1: "scale", 4: "variance"}.get(position, "")
    if user.op_type == "Unsqueeze":
        return _role(user.output[0], users)
    return "scale" if user.op_type == "Mul" else ""


def _random_weight(rng: np.random.Generator, shape: tuple[int, ...], role: str) -> np.ndarray:
    if role:
        low, high = (0.8, 1.2) if role == "scale" else (0.5, 1.5)
        return rng.uniform(low, high, shape).astype(np.float32)
    fan_in = int(np.prod(shape[1:]))
    # a vector is a bias or a mean; He's scale for the rest
    scale = 0.1 if len(shape) == 1 else (2 / fan_in) ** 0.5
    return (rng.standard_normal(shape) * scale).astype(np.float32)
