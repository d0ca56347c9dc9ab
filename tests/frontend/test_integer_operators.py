"""ConvInteger, MatMulInteger and DynamicQuantizeLinear, whose results are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.frontend.onnx_runner import Build, run, run_reference, whole_build
from tests.frontend.quantised_cases import (
    S8,
    U8,
    F,
    compare,
    each_build,
    integers,
    zero,
)
from tests.frontend.quantised_models import single_node


@each_build
@pytest.mark.parametrize("weight", [U8, S8])
def test_integer_convolutions_are_exact(weight: Any, build: Build) -> None:
    x, w = integers(U8, 1, 6, 9, 8), integers(weight, 4, 3, 3, 3, seed=1)
    window = {"pads": [1, 0, 2, 1], "strides": [2, 1], "group": 2}
    # onnxruntime takes one zero point for all signed weights
    for operands, data in (
        ([x, w], (0,)),
        ([x, w, zero(U8), zero(weight, 0)], (0,)),
        ([x, w, zero(U8)], (0, 1)),
    ):
        model, feeds = single_node("ConvInteger", operands, "int32", data=data, **window)
        compare(model, feeds, build)


@each_build
def test_integer_convolution_with_zero_points_of_channels(build: Build) -> None:
    x, w = integers(U8, 1, 6, 9, 8), integers(S8, 4, 6, 3, 3, seed=1)
    z = np.array([0, 1, -5, 7], S8)
    model, feeds = single_node("ConvInteger", [x, w, zero(U8), z], "int32")
    wide = w.astype(np.int64) - z.reshape(4, 1, 1, 1)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64) - 113, (3, 3), (2, 3))
    expected = np.einsum("nchwrs,kcrs->nkhw", windows, wide)
    np.testing.assert_array_equal(run(model, feeds, build)[0], expected)


@each_build
@pytest.mark.parametrize("weight", [U8, S8])
def test_integer_matrix_products_are_exact(weight: Any, build: Build) -> None:
    a, b = integers(U8, 5, 33), integers(weight, 33, 7, seed=1)
    rows, columns = integers(U8, 5), integers(weight, 7)
    for operands, data in (([a, b], (0,)), ([a, b, zero(U8), columns], (0, 1))):
        compare(*single_node("MatMulInteger", operands, "int32", data=data), build=build)
    # onnxruntime has no zero points of rows
    model, feeds = single_node("MatMulInteger", [a, b, rows, columns], "int32")
    wide = (a.astype(int) - rows[:, None].astype(int)) @ (b.astype(int) - columns.astype(int))
    np.testing.assert_array_equal(run(model, feeds, build)[0], wide)


def test_sums_of_the_largest_products_wrap_nowhere() -> None:
    a, b = np.full((1, 60_000), 255, U8), np.full((60_000, 1), -128, S8)
    model, feeds = single_node("MatMulInteger", [a, b], "int32")
    assert run(model, feeds, whole_build)[0].item() == -255 * 128 * 60_000


@each_build
def test_dynamic_quantization_around_integer_operators(build: Build) -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["sums"]),
        helper.make_node("Cast", ["sums"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["wide", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "dynamic",
        [helper.make_tensor_value_info("x", 1, (4, 16))],
        [helper.make_tensor_value_info("y", 1, None), helper.make_tensor_value_info("z", 2, ())],
        [numpy_helper.from_array(integers(S8, 16, 6), "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = np.random.default_rng(0).standard_normal((4, 16)).astype(F)
    for values in (x, np.zeros_like(x)):
        compare(model, {"x": values}, build)


def test_dynamic_quantization_of_data_that_is_not_finite() -> None:
    """NaN does not count; the zero point of the lowest infinity is 255."""
    node = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    graph = helper.make_graph(
        [node], "dynamic", [helper.make_tensor_value_info("x", 1, (20,))],
        [
            helper.make_tensor_value_info("q", TensorProto.UINT8, (20,)),
            helper.make_tensor_value_info("s", 1, ()),
            helper.make_tensor_value_info("z", TensorProto.UINT8, ()),
        ],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    built = tvmconv.build(model, threads=1)
    inf, nan = np.inf, np.nan
    for values in ([1, -2, nan, 3], [1, -2, inf, 3], [1, -2, -inf, 3], [inf, -inf, 1, 2],
                   [nan, inf, -1, 2], [nan, -inf, -1, 2], [3e38, -3e38, 1, 0]):  # fmt: skip
        x = np.array(values * 5, np.float32)
        expected = run_reference(model, {"x": x})
        for actual, wanted in zip(built.run(x), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(actual), wanted, err_msg=str(values))
    # onnxruntime's range misses numbers next to some NaN
    x = np.random.default_rng(0).standard_normal(20).astype(np.float32)
    is_nan = np.arange(20) % 3 > 0
    quantized, *parameters = run_reference(model, {"x": np.where(is_nan, np.float32(0), x)})
    expected = [np.where(is_nan, np.uint8(0), quantized), *parameters]
    for actual, wanted in zip(built.run(np.where(is_nan, np.nan, x)), expected, strict=True):
        np.testing.assert_array_equal(np.asarray(actual), wanted)
