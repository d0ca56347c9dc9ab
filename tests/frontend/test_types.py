"""Element types: what an operator does not take, and outputs declared as another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.bad_models import refuse
from tests.frontend.onnx_runner import noise, run, whole_build

_PLANE = (1, 2, 5, 5)


def _model(
    operator: str, source: int, made: int, opset: int = 22, **attributes: Any
) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x"], ["y"], "node1", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", source, _PLANE)],
        [helper.make_tensor_value_info("y", made, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize(
    ("operator", "source"),
    [
        ("AveragePool", TensorProto.UINT8),
        ("AveragePool", TensorProto.BOOL),
        ("LpPool", TensorProto.INT64),
        ("LpPool", TensorProto.BOOL),
        ("MaxPool", TensorProto.INT32),
    ],
)
def test_operands_of_a_type_that_the_operator_does_not_take(operator: str, source: int) -> None:
    model = _model(operator, source, source, kernel_shape=[3, 3])
    refuse(model, "node1", operator, "does not take", "float32", "Cast")


def test_operands_of_different_types() -> None:
    node = helper.make_node("Add", ["x", "b"], ["y"], "node1")
    model = _model("Relu", TensorProto.FLOAT, TensorProto.FLOAT)
    model.graph.node[0].CopyFrom(node)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(5, np.float64), "b"))
    refuse(model, "node1", "same type", "float32", "float64")


def test_a_type_is_judged_by_the_models_operator_set() -> None:
    kernel = {"kernel_shape": [3, 3]}
    data = np.arange(50, dtype=np.int8).reshape(_PLANE)
    refuse(_model("MaxPool", TensorProto.INT8, TensorProto.INT8, 11, **kernel), "does not take")
    model = _model("MaxPool", TensorProto.INT8, TensorProto.INT8, 12, **kernel)
    np.testing.assert_array_equal(run(model, {"x": data})[0], data[:, :, 2:, 2:])


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float64"])
def test_padding_of_any_type(dtype: str) -> None:
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = _model("Pad", code, code)
    value = np.array(3, dtype)
    for name, array in (("p", np.array([0, 1, 0, 2, 1, 0, 2, 0])), ("v", value)):
        model.graph.node[0].input.append(name)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    x = (10 * noise(*_PLANE)).astype(dtype)
    expected = np.pad(x, [(0, 1), (1, 0), (0, 2), (2, 0)], constant_values=value)
    np.testing.assert_array_equal(run(model, {"x": x})[0], expected)
    np.testing.assert_array_equal(run(model, {"x": x}, whole_build)[0], expected)


UNSIGNED, SIGNED = ("uint8", "uint16", "uint32", "uint64"), ("int8", "int16", "int32", "int64")


@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
def test_places_of_extremes(operator: str, last: int) -> None:
    """Rows of a type's smallest or largest number alone among them."""
    for dtype in (*UNSIGNED, *SIGNED, "float16", "float32", "float64"):
        is_float = dtype.startswith("float")
        ends = (-np.inf, np.inf) if is_float else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        low, high = (np.array(end, dtype) for end in ends)
        x = np.array([[low] * 3, [high] * 3, [low, high, low], [1, 3, 3], [5, 0, 5]], dtype)
        code = helper.np_dtype_to_tensor_dtype(x.dtype)
        model = _model(
            operator, code, TensorProto.INT64, axis=1, keepdims=0, select_last_index=last
        )
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", code, x.shape))
        find = np.argmax if operator == "ArgMax" else np.argmin
        expected = 2 - find(x[:, ::-1], 1) if last else find(x, 1)
        np.testing.assert_array_equal(run(model, {"x": x})[0], expected, dtype)


@pytest.mark.parametrize("dtype", [*UNSIGNED, *SIGNED])
def test_signs(dtype: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = (10 * noise(*_PLANE)).astype(np.int64).astype(dtype)
    x[0, 0, 0] = 0
    np.testing.assert_array_equal(run(_model("Sign", code, code), {"x": x})[0], np.sign(x))


@pytest.mark.parametrize("declared", ["BOOL", "INT64", "BFLOAT16", "DOUBLE"])
def test_an_output_declared_as_another_type(declared: str) -> None:
    model = _model("Relu", TensorProto.FLOAT, TensorProto.DataType.Value(declared))
    refuse(model, "'y'", declared, "float32")


def test_an_output_of_an_unknown_type() -> None:
    refuse(_model("Relu", TensorProto.FLOAT, 99), "'y'", "99", "float32")


def test_a_declared_type_that_agrees() -> None:
    x = noise(*_PLANE)
    result = run(_model("Relu", TensorProto.FLOAT, TensorProto.FLOAT), {"x": x})[0]
    np.testing.assert_array_equal(result, np.maximum(x, 0))
