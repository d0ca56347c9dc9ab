"""Tiny models to start from: onnx's node cases of every operator, and small networks."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.frontend.onnx_runner import freeze, make_model, noise
from tests.fuzz import draw_control
from tests.fuzz.draft import Draft
from tests.small_network import small_network
from tvmconv.frontend.limits import MIN_OPSET

_MOST_BYTES = 3000
_MOST_OF_ONE_OPERATOR = 4
_OPSET, _IR_VERSION = 21, 10


def corpus() -> list[onnx.ModelProto]:
    """The same models in the same order in every process that has not asked before."""
    return [*_node_models(), *networks(), *_controlled()]


def _controlled() -> list[onnx.ModelProto]:
    """Models with If, Loop and Scan."""
    models: list[onnx.ModelProto] = []
    for seed in range(40):
        draft = Draft(random.Random(seed), 13 + seed % 5)
        if draft.attempt(draw_control.controlled):
            model = draft.model()
            if model.ByteSize() <= _MOST_BYTES:
                models.append(model)
    return models[:12]


def _node_models() -> list[onnx.ModelProto]:
    """Some cases of each operator; further inputs are constants unless they may be data."""
    from tests.frontend.test_onnx_nodes import (
        CORE,
        DATA_OPERATORS,
        OTHERS,
        QUANTISED,
        RECURRENT,
        cases_of,
    )

    # the cases draw their data from the global generator when they are imported
    np.random.seed(0)  # noqa: NPY002
    taken: Counter[str] = Counter()
    models = []
    for module in sorted((*CORE, *OTHERS, *QUANTISED, *RECURRENT)):
        for case in cases_of(module):
            operator = case.model.graph.node[-1].op_type
            if taken[operator] >= _MOST_OF_ONE_OPERATOR:
                continue
            values = [_array(value) for value in case.data_sets[0][0]]
            if any(not isinstance(value, np.ndarray) for value in values):
                continue
            free = len(values) if operator in DATA_OPERATORS and taken[operator] % 2 else 1
            keep = 0 if operator == "ConstantOfShape" else min(len(values), free)
            model, _ = freeze(case.model, values, keep)
            _lower_versions(model)
            if model.ByteSize() <= _MOST_BYTES:
                taken[operator] += 1
                models.append(model)
    return models


def _lower_versions(model: onnx.ModelProto) -> None:
    """Oldest versions that mean the same, for the sake of other runtimes."""
    newest = model.opset_import[0].version
    meant = [onnx.defs.get_schema(node.op_type, newest).since_version for node in model.graph.node]
    model.opset_import[0].version = max(*meant, min(newest, _OPSET), MIN_OPSET)
    model.ir_version = min(model.ir_version, _IR_VERSION)


def _array(value: Any) -> Any:
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def networks() -> list[onnx.ModelProto]:
    """Small networks with what fusion looks for."""
    node = helper.make_node
    same = {"pads": [1, 1, 1, 1]}
    residual = [
        node("Conv", ["x", "w"], ["a"], "first", **same),
        node("BatchNormalization", ["a", "s", "b", "m", "v"], ["n"], "norm"),
        node("Relu", ["n"], ["r"], "relu"),
        node("Conv", ["r", "w2", "b"], ["c"], "second", **same),
        node("Add", ["c", "r"], ["sum"], "add"),
        node("Relu", ["sum"], ["y"], "last"),
    ]
    mobile = [
        node("Conv", ["x", "w"], ["a"], "expand"),
        node("Clip", ["a", "low", "high"], ["r"], "clip"),
        node("Conv", ["r", "d"], ["c"], "depthwise", group=4, **same),
        node("AveragePool", ["c"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Concat", ["p", "p"], ["j"], "join", axis=1),
        node("Shape", ["j"], ["shape"], "shape"),
        node("Slice", ["shape", "zero", "one"], ["n"], "batch"),
        node("Concat", ["n", "rest"], ["target"], "target", axis=0),
        node("Reshape", ["j", "target"], ["y"], "flat"),
    ]
    up = [
        node("ConvTranspose", ["x", "w"], ["a"], "up", strides=[2, 2]),
        node("Resize", ["a", "", "scales"], ["r"], "resize", mode="linear"),
        node("InstanceNormalization", ["r", "s", "b"], ["i"], "norm"),
        node("Sigmoid", ["i"], ["g"], "gate"),
        node("Mul", ["i", "g"], ["y"], "swish"),
    ]
    row = [
        node("Conv", ["x", "w"], ["a"], "row", dilations=[2]),
        node("LeakyRelu", ["a"], ["r"], "leaky"),
        node("Transpose", ["r"], ["t"], "turn", perm=[0, 2, 1]),
        node("MatMul", ["t", "m"], ["p"], "product"),
        node("Softmax", ["p"], ["y"], "softmax", axis=-1),
    ]
    scale = np.abs(noise(4, seed=2)) + 0.5
    return [
        small_network(),
        make_model(
            residual,
            {"x": (1, 3, 6, 5)},
            ["y"],
            {
                "w": noise(4, 3, 3, 3), "w2": noise(4, 4, 3, 3, seed=1), "s": scale,
                "b": noise(4, seed=3), "m": noise(4, seed=4), "v": scale,
            },
        ),
        make_model(
            mobile,
            {"x": (1, 3, 6, 6)},
            ["y"],
            {
                "w": noise(4, 3, 1, 1), "d": noise(4, 1, 3, 3), "low": np.float32(0),
                "high": np.float32(6), "zero": np.array([0]), "one": np.array([1]),
                "rest": np.array([-1]),
            },
        ),
        make_model(
            up,
            {"x": (1, 3, 4, 3)},
            ["y"],
            {
                "w": noise(3, 4, 2, 2), "scales": np.array([1, 1, 1.5, 2], "float32"),
                "s": scale, "b": noise(4, seed=3),
            },
        ),
        make_model(
            row, {"x": (1, 3, 9)}, ["y"], {"w": noise(4, 3, 3), "m": noise(4, 5)}
        ),
    ]  # fmt: skip
