"""Single INT8 operators against onnxruntime, which computes them without its graph passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx_runner import Build, run, run_reference, tvm_pipeline, whole_build
from tests.frontend.quantised_cases import (
    MICROSOFT,
    S8,
    U8,
    F,
    compare,
    each_build,
    each_type,
    integers,
    scale,
    scales,
    zero,
)
from tests.frontend.quantised_models import single_node
from tvmconv.frontend import read_model, to_relax
from tvmconv.graph.read import read_function


@each_build
@pytest.mark.parametrize(
    ("dtype", "opset", "domain"),
    [
        (U8, 13, ""), (S8, 10, MICROSOFT),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                (U8, 10, ""), (S8, 13, ""), (U8, 19, ""), (S8, 19, ""), (U8, 21, ""), (S8, 21, ""),
                (np.uint16, 21, ""), (np.int16, 21, ""), (np.int16, 13, MICROSOFT),
            )
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:.*16 bits")
def test_quantize_and_dequantize(dtype: Any, opset: int, domain: str, build: Build) -> None:
    x = np.random.default_rng(1).standard_normal((2, 5, 3, 4)).astype(F) * 4
    for s, z, attrs in (
        (scale(0.03), zero(dtype), {}),
        (scale(0.03).reshape(1), zero(dtype).reshape(1), {}),
        (scale(0.03), None, {}),
        (scales(5, typical=0.03), integers(dtype, 5), {"axis": 1}),
        (scales(4, typical=0.03), integers(dtype, 4), {"axis": -1}),
    ):
        if opset < 13 and attrs and not domain:
            continue
        if z is None and (dtype != U8 or domain):
            continue
        kinds = {"opset": opset, "domain": domain, **attrs}
        name = np.dtype(dtype).name
        compare(*single_node("QuantizeLinear", [x, s, z], name, **kinds), build=build)
        y = integers(dtype, *x.shape)
        compare(*single_node("DequantizeLinear", [y, s, z], "float32", **kinds), build=build)


def test_without_zero_point_the_named_type_counts() -> None:
    x = np.linspace(-4, 4, 40).astype(F)
    model, feeds = single_node(
        "QuantizeLinear", [x, scale(0.03)], "int8", opset=21, output_dtype=TensorProto.INT8
    )
    compare(model, feeds, whole_build)


def test_scales_of_blocks() -> None:
    x = np.random.default_rng(1).standard_normal((3, 10, 2)).astype(F)
    s = scales(3 * 4 * 2, typical=0.03).reshape(3, 4, 2)
    z = integers(U8, 3, 4, 2)
    kinds: dict[str, Any] = {"opset": 21, "axis": 1, "block_size": 3}
    for build in (tvm_pipeline, whole_build):
        compare(*single_node("QuantizeLinear", [x, s, z], **kinds), build=build)
        y = integers(U8, 3, 10, 2)
        compare(*single_node("DequantizeLinear", [y, s, z], "float32", **kinds), build=build)


def test_scales_of_blocks_of_a_row() -> None:
    x, s = np.linspace(-2, 2, 5).astype(F), scales(2, typical=0.03)
    kinds: dict[str, Any] = {"opset": 21, "axis": 0, "block_size": 4}
    for z in (integers(U8, 2), np.zeros(2, U8)):
        compare(*single_node("QuantizeLinear", [x, s, z], **kinds), build=tvm_pipeline)


@each_build
def test_scales_that_the_model_computes(build: Build) -> None:
    x = np.random.default_rng(1).standard_normal((2, 6)).astype(F)
    for s, z in ((scale(0.02), zero(U8)), (scales(6, typical=0.02), integers(U8, 6))):
        model, feeds = single_node("QuantizeLinear", [x, s, z], data=(0, 1, 2))
        compare(model, feeds, build)


@each_build
@each_type
def test_convolutions(dtype: Any, build: Build) -> None:
    x, w = integers(dtype, 1, 6, 9, 8), integers(S8, 4, 3, 3, 3, seed=1)
    bias = np.array([0, 5000, -70000, 123], np.int32)
    window = {"pads": [1, 0, 2, 1], "strides": [2, 1], "group": 2}
    for s, zw in ((scale(0.002), np.zeros((), S8)), (scales(4, typical=0.002), np.zeros(4, S8))):
        operands = [x, scale(0.03), zero(dtype), w, s, zw, scale(0.09), zero(dtype, 7), bias]
        for some in (operands, operands[:-1]):
            kind = np.dtype(dtype).name
            compare(*single_node("QLinearConv", some, kind, **window), build=build, steps=1)


@each_build
def test_convolutions_of_unsigned_weights(build: Build) -> None:
    x, w = integers(U8, 2, 3, 7, 7), integers(U8, 5, 3, 3, 3, seed=1)
    operands = [x, scale(0.03), zero(U8), w, scale(0.002), zero(U8, 20), scale(0.1), zero(U8)]
    compare(*single_node("QLinearConv", operands, dilations=[2, 2]), build=build, steps=1)


def test_convolutions_of_signals() -> None:
    x, w = integers(U8, 1, 4, 20), integers(S8, 6, 4, 3, seed=1)
    bias = np.arange(6, dtype=np.int32) * 1000
    zeros = np.zeros(6, S8)
    operands = [x, scale(0.03), zero(U8), w, scales(6), zeros, scale(0.5), zero(U8), bias]
    for build in (tvm_pipeline, whole_build):
        compare(*single_node("QLinearConv", operands, pads=[1, 1]), build=build, steps=1)
        integer = [x, w, zero(U8)]
        compare(*single_node("ConvInteger", integer, "int32", pads=[1, 1]), build=build)


@each_build
@each_type
def test_matrix_products(dtype: Any, build: Build) -> None:
    kind = np.dtype(dtype).name
    for shape in ((5, 33), (2, 5, 33)):
        a, b = integers(dtype, *shape), integers(S8, 33, 7, seed=1)
        for s, z in ((scale(0.01), np.zeros((), S8)), (scales(7), np.zeros(7, S8))):
            operands = [a, scale(0.02), zero(dtype), b, s, z, scale(0.3), zero(dtype, 9)]
            compare(*single_node("QLinearMatMul", operands, kind), build=build, steps=1)


@each_build
@each_type
def test_gemm(dtype: Any, build: Build) -> None:
    kind = np.dtype(dtype).name
    a = integers(dtype, 5, 33)
    bias = np.arange(7, dtype=np.int32) * 500
    one, all_zero = np.zeros((), S8), np.zeros(7, S8)
    for trans, s, z, c in ((0, scale(0.01), one, None), (1, scales(7), all_zero, bias)):
        b = integers(S8, *((7, 33) if trans else (33, 7)), seed=1)
        left = [a, scale(0.02), zero(dtype), b, s, z, c]
        attrs = {"transB": trans, "domain": MICROSOFT}
        end = [scale(0.3), zero(dtype, 9)]
        compare(*single_node("QGemm", left + end, kind, **attrs), build=build, steps=1)
        compare(*single_node("QGemm", left, "float32", **attrs), build=build)


@each_build
@each_type
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_arithmetic(op: str, dtype: Any, build: Build) -> None:
    kind = np.dtype(dtype).name
    a = integers(dtype, 2, 3, 4, 5)
    for shape in ((2, 3, 4, 5), (3, 1, 1)):
        b = integers(dtype, *shape, seed=1)
        left = [a, scale(0.02), zero(dtype), b, scale(0.01), zero(dtype, 1)]
        model, feeds = single_node(
            op, [*left, scale(0.05), zero(dtype, 9)], kind, data=(0, 3), domain=MICROSOFT
        )
        compare(model, feeds, build, steps=1)


@each_build
@each_type
def test_functions_and_pools(dtype: Any, build: Build) -> None:
    kind = np.dtype(dtype).name
    operands = [integers(dtype, 2, 3, 9, 8), scale(0.04), zero(dtype)]
    pool = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    last = zero(dtype, -20)
    cases: list[tuple[str, float, dict[str, Any]]] = [
        ("QLinearSigmoid", 1 / 256, {}),
        ("QLinearLeakyRelu", 0.03, {"alpha": 0.2}),
        ("QLinearSoftmax", 1 / 256, {"axis": -1, "opset": 13}),
        ("QLinearAveragePool", 0.03, {**pool, "count_include_pad": 1}),
        ("QLinearAveragePool", 0.03, {**pool, "ceil_mode": 1}),
        ("QLinearGlobalAveragePool", 0.03, {}),
    ]
    for op, step, attrs in cases:
        model, feeds = single_node(op, [*operands, scale(step), last], kind, domain=MICROSOFT)
        model.graph.node[0].attribute.extend(
            helper.make_attribute(name, value) for name, value in attrs.items()
        )
        compare(model, feeds, build, steps=1)


@each_build
@each_type
def test_concatenation_and_choice(dtype: Any, build: Build) -> None:
    kind = np.dtype(dtype).name
    a, b = integers(dtype, 2, 3, 4), integers(dtype, 2, 5, 4, seed=1)
    operands = [scale(0.05), zero(dtype, 9), a, scale(0.02), zero(dtype), b, scale(0.05),
                zero(dtype, 9)]  # fmt: skip
    model, feeds = single_node(
        "QLinearConcat", operands, kind, data=(2, 5), domain=MICROSOFT, axis=1
    )
    compare(model, feeds, build, steps=1)
    condition = integers(U8, 2, 3, 4) > 100
    operands = [condition, a, scale(0.02), zero(dtype), integers(dtype, 2, 3, 4, seed=3),
                scale(0.03), zero(dtype, 2), scale(0.05), zero(dtype, 9)]  # fmt: skip
    # Where is an operator since 9
    for opset in (8, 13):
        model, feeds = single_node(
            "QLinearWhere", operands, kind, data=(0, 1, 4), domain=MICROSOFT, opset=opset
        )
        compare(model, feeds, build, steps=1)


def test_constants_stay_integers_for_the_kernels() -> None:
    """Weights and biases, also where a layer takes them in another shape or transposed."""
    for op, w, attrs in (
        ("QLinearConv", integers(S8, 4, 3, 5), {}),
        ("QGemm", integers(S8, 4, 3), {"transB": 1, "domain": MICROSOFT}),
    ):
        x, bias = integers(U8, 2, 3, *([9] if w.ndim == 3 else [])), np.arange(4, dtype=np.int32)
        left = [x, scale(0.1), zero(U8), w, scales(4), np.zeros(4, S8)]
        end = [scale(0.1), zero(U8)]
        operands = [*left, bias, *end] if op == "QGemm" else [*left, *end, bias]
        model, _ = single_node(op, operands, **attrs)
        nodes = read_function(to_relax(read_model(model))["main"]).nodes
        layer = next(node for node in nodes if node.op in ("nn.conv2d", "matmul"))
        bias = next(node for node in nodes if node.op == "add")
        for value in (layer.args[1], bias.args[1]):
            assert value.producer.op == "dequantize"
            assert value.producer.args[0].data.dtype in (S8, np.int32)


def test_a_quantized_constant_folds_and_its_dequantization_stays() -> None:
    rng = np.random.default_rng(0)
    constants = {"w": rng.standard_normal((4, 3, 3, 3)).astype(F), "s": scale(0.02), "z": zero(S8)}
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Conv", ["x", "d"], ["y"], "conv1"),
    ]
    graph = helper.make_graph(
        nodes, "folded",
        [helper.make_tensor_value_info("x", 1, (1, 3, 5, 5))],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    loaded = read_model(model)
    assert [node.op for node in loaded.graph.nodes] == ["DequantizeLinear", "Conv"]
    assert loaded.graph.constants["q"].dtype == S8
    compare(model, {"x": rng.standard_normal((1, 3, 5, 5)).astype(F)}, whole_build)


def test_sixteen_bits_are_said_to_run_in_float() -> None:
    x = np.zeros((2, 3), F)
    model, _ = single_node("QuantizeLinear", [x, scale(1), zero(np.int16)], "int16", opset=21)
    with pytest.warns(UserWarning, match=r"'node1' \(QuantizeLinear\).*float32"):
        read_model(model)


def test_the_exported_graph_computes_the_same() -> None:
    """Scales of channels, which DequantizeLinear of the model's operator set does not know."""
    x, w = integers(U8, 1, 3, 7, 7), integers(S8, 4, 3, 3, 3, seed=1)
    zeros = np.zeros(4, S8)
    operands = [x, scale(0.03), zero(U8), w, scales(4), zeros, scale(0.5), zero(U8)]
    model, feeds = single_node("QLinearConv", operands, opset=10)
    proto = read_model(model).proto
    onnx.checker.check_model(proto)
    expected = run(model, feeds)[0]
    np.testing.assert_array_equal(run_reference(proto, feeds, optimised=False)[0], expected)
    np.testing.assert_array_equal(run(proto, feeds)[0], expected)
