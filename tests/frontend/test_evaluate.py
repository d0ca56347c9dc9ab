"""Constants that the reader computes, against values that nobody here computed."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.node_cases import case_modules, cases_of
from tests.frontend.onnx_runner import freeze, make_model, noise, run, run_reference
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model
from tvmconv.frontend.operators import COMPOSED, EXPANDED, IMPORTED

# computed with the model even where their operands are constants
WITH_THE_MODEL = EXPANDED | {
    "AffineGrid", "AveragePool", "DeformConv", "DequantizeLinear", "GRU", "GlobalMaxPool",
    "GridSample", "LRN", "LSTM", "LpNormalization", "LpPool", "MaxPool", "RNN", "RoiAlign", "STFT",
    "Upsample",
}  # fmt: skip


def node_cases() -> list[Any]:
    """The cases of onnx's collection that hold one importable operator with numeric operands."""
    left_out = {operator.lower() for operator in WITH_THE_MODEL}
    return [
        case
        for case in chain.from_iterable(cases_of(m) for m in case_modules() if m not in left_out)
        if len(case.model.graph.node) == 1
        and case.model.graph.node[0].op_type in IMPORTED - WITH_THE_MODEL
        and all(value.type.HasField("tensor_type") for value in case.model.graph.input)
        # Dropout draws random numbers in training
        and "training_dropout" not in case.name
    ]


def test_frozen_node_cases_fold_to_their_expected_outputs() -> None:
    failures, folded, seen = {}, 0, set()
    for case in node_cases():
        operands, expected = ([_array(v) for v in values] for values in case.data_sets[0])
        try:
            graph = read_model(freeze(case.model, operands, 0)[0]).graph
        except ModelError as error:
            # element types and sequences that no model here may have, and operator sets from
            # before the oldest
            known = ("element type", "operator set", "sequence values", "optional values")
            if not any(reason in str(error) for reason in known):
                failures[case.name] = str(error)
            continue
        try:
            assert graph.nodes == []
            for info, wanted in zip(graph.outputs, expected, strict=True):
                actual = graph.constants[info.name]
                assert (wanted.shape, wanted.dtype) == (actual.shape, actual.dtype)
                # each part of a composed operator rounds its result to 16 bits
                parts = case.model.graph.node[0].op_type in COMPOSED and wanted.dtype.itemsize == 2
                rtol, atol = (2e-2, 4e-3) if parts else (max(case.rtol, 1e-4), 1e-5)
                np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)
        except AssertionError as error:
            failures[case.name] = " ".join(str(error).split())
        folded += 1
        seen.add(case.model.graph.node[0].op_type)
    assert failures == {}
    assert folded > 700
    assert len(seen) > 110


def _array(value: Any) -> np.ndarray:
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


X = noise(2, 3, 4, 4)
# operators whose meaning or spelling changed over the operator sets
CHANGED: dict[str, tuple[range, list[np.ndarray], dict[str, Any]]] = {
    "Add": (range(7, 22), [X, noise(3, 1, 1)], {}),
    "BatchNormalization": (
        range(7, 22),
        [X, noise(3), noise(3), noise(3), np.abs(noise(3)) + 1],
        {},
    ),
    "Cast": (range(7, 22), [X * 9], {"to": TensorProto.INT32}),
    "Clip": (range(7, 11), [X], {"min": -0.5, "max": 0.5}),
    "Concat": (range(7, 22), [X, X], {"axis": 1}),
    "Conv": (range(7, 22), [X, noise(4, 3, 3, 3)], {"pads": [1] * 4}),
    "Dropout": (range(7, 22), [X], {}),
    "Flatten": (range(7, 22), [X], {"axis": 2}),
    "Gemm": (range(7, 22), [X.reshape(6, 16), noise(16, 5), noise(5)], {"alpha": 0.5}),
    "Pad": (range(7, 11), [X], {"pads": [0, 0, 1, 2, 0, 0, 1, 0], "mode": "reflect"}),
    "ReduceMean": (range(7, 18), [X], {"axes": [1, 2]}),
    "ReduceSum": (range(7, 13), [X], {"axes": [-1], "keepdims": 0}),
    "Reshape": (range(7, 22), [X, np.array([0, -1])], {}),
    "Resize": (range(10, 11), [X, np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}),
    "Slice": (range(7, 10), [X], {"starts": [1, -2], "ends": [9, 9], "axes": [1, 3]}),
    "Softmax": (range(7, 22), [X], {"axis": 1}),
    "LogSoftmax": (range(7, 22), [X], {"axis": 1}),
    "Hardmax": (range(13, 22), [X], {"axis": 1}),
    "Squeeze": (range(7, 13), [X[:1]], {"axes": [0]}),
    "TopK": (range(7, 10), [X], {"k": 2}),
    "Unsqueeze": (range(7, 13), [X], {"axes": [0, 5]}),
}
# the operator sets before are computed with the model
FOLDED_FROM = {"LogSoftmax": 13, "Resize": 11, "Softmax": 13}


@pytest.mark.parametrize("operator", CHANGED)
def test_every_operator_set_folds_as_onnxruntime_computes(operator: str) -> None:
    opsets, operands, attributes = CHANGED[operator]
    names = [f"i{index}" for index in range(len(operands))]
    outputs = ["y", "k"] if operator == "TopK" else ["y"]
    for opset in opsets:
        node = helper.make_node(operator, names, outputs, **attributes)
        constants = dict(zip(names, operands, strict=True))
        model = make_model([node], {}, ["y"], constants, opset=opset)
        if operator == "Cast":
            model.graph.output[0].type.tensor_type.elem_type = TensorProto.INT32
        graph = read_model(model).graph
        if opset < FOLDED_FROM.get(operator, 0):
            assert [node.op for node in graph.nodes] == [operator]
            continue
        assert graph.nodes == [], opset
        wanted = run_reference(model, {})[0]
        assert graph.constants["y"].dtype == wanted.dtype
        np.testing.assert_allclose(
            graph.constants["y"], wanted, rtol=1e-5, atol=1e-6, err_msg=f"operator set {opset}"
        )


@pytest.mark.parametrize(
    ("operator", "attributes"), [("LpNormalization", {"p": 1}), ("GlobalMaxPool", {})]
)
def test_constants_that_onnx_computes_otherwise(operator: str, attributes: Any) -> None:
    nodes = [
        helper.make_node(operator, ["c"], ["k"], **attributes),
        helper.make_node("Add", ["k", "x"], ["y"]),
    ]
    model, feeds = make_model(nodes, {"x": (1,)}, ["y"], {"c": X[0]}), {"x": noise(1)}
    wanted = run_reference(model, feeds)[0]
    np.testing.assert_allclose(run(model, feeds)[0], wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("opset", [9, 13, 14, 17])
def test_batch_norm_in_training_mode_uses_its_own_statistics(opset: int) -> None:
    attributes = {"training_mode": 1} if opset >= 14 else {}
    outputs = ["y", "m", "v"] + (["sm", "sv"] if opset < 14 else [])
    node = helper.make_node(
        "BatchNormalization", list("xgbrs"), outputs, epsilon=1e-3, **attributes
    )
    gamma, beta = noise(3, seed=1), noise(3, seed=2)
    constants = {"x": X, "g": gamma, "b": beta, "r": noise(3), "s": np.ones(3, np.float32)}
    graph = read_model(make_model([node], {}, ["y", "m"], constants, opset=opset)).graph
    wide, along = X.astype(np.float64), (0, 2, 3)
    mean, spread = wide.mean(along), wide.var(along) + 1e-3
    column = (3, 1, 1)
    wanted = (wide - mean.reshape(column)) * (gamma / np.sqrt(spread)).reshape(column)
    wanted += beta.reshape(column)
    np.testing.assert_allclose(graph.constants["y"], wanted, rtol=1e-5, atol=1e-6)
    running = 0.9 * constants["r"] + 0.1 * mean
    np.testing.assert_allclose(graph.constants["m"], running, rtol=1e-5, atol=1e-6)


def test_logarithms_of_small_probabilities() -> None:
    x = np.array([[0, -300, 2], [-1e4, 1e4, 1e4]], np.float32)
    for axis in (0, 1):
        node = helper.make_node("LogSoftmax", ["x"], ["y"], axis=axis)
        model = make_model([node], {}, ["y"], {"x": x})
        folded = read_model(model).graph.constants["y"]
        np.testing.assert_allclose(folded, run_reference(model, {})[0], rtol=1e-6)
