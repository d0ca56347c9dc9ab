"""Element types: the refusals of operators, and outputs declared as another type."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.bad_models import refuse
from tests.frontend.onnx_runner import noise, run, run_reference, whole_build

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


def _same(operator: str, dtype: str, *operands: Any, opset: int = 21, **attributes: Any) -> Any:
    """A model whose result has the type of its input; further operands are constants or absent."""
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = _model(operator, code, code, opset, **attributes)
    for index, array in enumerate(operands, 1):
        model.graph.node[0].input.append("" if array is None else f"c{index}")
        if array is not None:
            model.graph.initializer.append(numpy_helper.from_array(array, f"c{index}"))
    return model


def _any_integers(dtype: str) -> np.ndarray:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max, _PLANE, dtype, endpoint=True)
    x[0, 0, 0, :2] = limits.min, limits.max
    return x


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
    value = np.array(np.iinfo(dtype).max if "int" in dtype else 3, dtype)
    model = _same("Pad", dtype, np.array([0, 1, 0, 2, 1, 0, 2, 0]), value)
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


def test_hardmax_of_nothing_but_infinities() -> None:
    x = np.full(_PLANE, -np.inf, np.float32)
    (y,) = run(_same("Hardmax", "float32"), {"x": x})
    np.testing.assert_array_equal(y, np.broadcast_to(np.arange(_PLANE[-1]) == 0, _PLANE))


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_running_sums_of_wide_types(dtype: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = np.arange(15, dtype=dtype)
    model = _model("CumSum", code, code)
    model.graph.node[0].input.append("axis")
    model.graph.initializer.append(numpy_helper.from_array(np.array(0), "axis"))
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", code, x.shape))
    np.testing.assert_array_equal(run(model, {"x": x})[0], np.cumsum(x), strict=True)


@pytest.mark.parametrize("dtype", [*UNSIGNED, *SIGNED])
def test_signs(dtype: str) -> None:
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = (10 * noise(*_PLANE)).astype(np.int64).astype(dtype)
    x[0, 0, 0] = 0
    np.testing.assert_array_equal(run(_model("Sign", code, code), {"x": x})[0], np.sign(x))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int32"])
def test_resized_integers_are_rounded_and_saturated(dtype: str, mode: str) -> None:
    # onnx.reference computes coordinates in float32, too little for other scales of wide integers
    scales = np.array([1, 1, 1.7, 2.3] if dtype[-1] == "8" else [1, 1, 2, 4], np.float32)
    model, x = _same("Resize", dtype, None, scales, mode=mode), _any_integers(dtype)
    expected = ReferenceEvaluator(model).run(None, {"x": x})[0]
    assert len(np.unique(expected)) > 20
    np.testing.assert_array_equal(run(model, {"x": x}, whole_build)[0], expected)
    refuse(_same("Resize", "bool", None, scales, mode=mode), "node1", "bool", "nearest")


def test_resized_integers_beyond_those_of_float64() -> None:
    """The largest ones saturate to what float64 has below them."""
    scales = np.array([1, 1, 1, 2], np.float32)
    x = np.full(_PLANE, np.iinfo(np.int64).max)
    result = run(_same("Resize", "int64", None, scales, mode="linear"), {"x": x})[0]
    np.testing.assert_array_equal(result, np.int64(np.nextafter(2.0**63, 0)))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_means_of_integers(dtype: str) -> None:
    """Means use all bits of the type; onnxruntime has the signed types only."""
    model = _same("ReduceMean", dtype, np.array([2, 3]), keepdims=0)
    small = np.arange(50).reshape(_PLANE) - (20 if dtype[0] == "i" else 0)
    for x in (_any_integers(dtype) // 64, small.astype(dtype)):
        total = x.astype(object).sum((2, 3))
        expected = np.array([[int(abs(n) // 25) * (1 if n > 0 else -1) for n in total[0]]], dtype)
        np.testing.assert_array_equal(run(model, {"x": x}, whole_build)[0], expected)
        if dtype.startswith("int") and abs(x).max() < 100:
            np.testing.assert_array_equal(run_reference(model, {"x": x})[0], expected)


@pytest.mark.parametrize("operator", ["ReduceL2", "ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("dtype", ["int32", "uint64"])
def test_roots_and_logarithms_of_integers(dtype: str, operator: str) -> None:
    """Their fractions are dropped; onnxruntime, which knows the signed ones, rounds some down."""
    x = (np.arange(50).reshape(_PLANE) - (-1 if dtype[0] == "u" else 9)).astype(dtype)
    model = _same(operator, dtype, np.array([3]))
    function = {
        "ReduceL2": lambda y: np.sqrt((y * y).sum(3, keepdims=True)),
        "ReduceLogSum": lambda y: np.log(y.sum(3, keepdims=True)),
        "ReduceLogSumExp": lambda y: np.log(np.exp(y).sum(3, keepdims=True)),
    }[operator]
    # sums below 1 have no logarithm
    x = np.abs(x.astype(np.int64)).astype(dtype) if operator == "ReduceLogSum" else x
    expected = np.trunc(function(x.astype(np.float64))).astype(dtype)
    np.testing.assert_array_equal(run(model, {"x": x}, whole_build)[0], expected)
    if dtype[0] == "i":
        theirs = run_reference(model, {"x": x})[0]
        np.testing.assert_array_equal(theirs[expected > 0], expected[expected > 0])


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint64"])
def test_bounds_of_integers_are_exact(dtype: str) -> None:
    x, top = _any_integers(dtype), np.iinfo(dtype).max
    for high in (top, top - 1):
        model = _same("Clip", dtype, np.array(4, dtype), np.array(high, dtype))
        expected = np.clip(x, 4, high)
        np.testing.assert_array_equal(run(model, {"x": x}, whole_build)[0], expected)


def test_factors_of_integer_products_are_whole() -> None:
    matrix = np.arange(25, dtype=np.int32).reshape(5, 5)
    for factors in ({"alpha": 0.5}, {"beta": 1.5}):
        model = _same("Gemm", "int32", matrix, matrix, **factors)
        model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.INT32, [3, 5]))
        refuse(model, "node1", "int32", *factors)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("InstanceNormalization", {}),
        ("LayerNormalization", {"axis": 2}),
        ("GroupNormalization", {"num_groups": 2}),
    ],
)
def test_squares_beyond_half_precision(operator: str, attributes: Any) -> None:
    """The result of all three has mean 0 and variance 1 in each of the two planes."""
    x = (1000 * noise(*_PLANE)).astype(np.float16)
    shape = (5, 5) if operator[0] == "L" else (2,)
    one, zero = np.ones(shape, np.float16), np.zeros(shape, np.float16)
    result = run(_same(operator, "float16", one, zero, **attributes), {"x": x})[0]
    wide = x.astype(np.float64)
    mean, deviation = (f((2, 3), keepdims=True) for f in (wide.mean, wide.std))
    np.testing.assert_allclose(result, (wide - mean) / deviation, 2e-3, 1e-3)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_local_response_of_any_float(dtype: str) -> None:
    """The window has two adjacent channels; onnx.reference forgets one."""
    x = noise(*_PLANE).astype(dtype)
    expected = x / (1 + 0.3 / 3 * (x.astype(np.float64) ** 2).sum(1, keepdims=True)) ** 0.75
    result = run(_same("LRN", dtype, size=3, alpha=0.3), {"x": x})[0]
    np.testing.assert_allclose(result, expected, 3e-3 if dtype == "float16" else 1e-6)


@pytest.mark.filterwarnings("ignore:.*no algorithm supports")
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_bias_of_any_float(dtype: str) -> None:
    x, weight, bias = noise(*_PLANE), noise(3, 2, 3, 3), 100 * noise(3)
    operands = (weight.astype(dtype), bias.astype(dtype))
    model, feeds = _same("Conv", dtype, *operands), {"x": x.astype(dtype)}
    expected = ReferenceEvaluator(model).run(None, feeds)[0]
    result = run(model, feeds, whole_build)[0]
    np.testing.assert_allclose(result, expected, 3e-3 if dtype == "float16" else 1e-12)


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
