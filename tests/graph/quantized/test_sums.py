"""Products of matrices and integer layers on 8-bit kernels, against onnxruntime bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import tvmconv
from tests.frontend.quantised_models import single_node
from tests.graph.network import Net
from tests.graph.quantised_net import QuantisedNet, small_input, unoptimised


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_sums_are_the_result_of_integer_convolutions(dtype: Any):
    generator = np.random.default_rng(0)
    limits = np.iinfo(dtype)
    data = generator.integers(limits.min, limits.max, (1, 20, 9, 9), dtype, endpoint=True)
    weight = generator.integers(-128, 127, (24, 20, 3, 3), np.int8, endpoint=True)
    zero = np.array(limits.max - 100, dtype)
    model, feeds = single_node(
        "ConvInteger", (data, weight, zero), "int32", opset=10, pads=[1, 1, 1, 1]
    )
    compiled = tvmconv.build(model, threads=1)
    (decision,) = compiled.decisions
    assert decision.workload.types.output == "int32"
    np.testing.assert_array_equal(compiled.run(feeds)["y"], unoptimised(model, feeds)[0])


def moving(op: str, dtype: Any, *shapes: tuple[int, ...], **attrs: Any) -> onnx.ModelProto:
    """An integer layer of data with a scale from their own range, or shifted to int8."""
    net = Net(*shapes[0])
    weight = net.generator.integers(-128, 127, shapes[1], np.int8, endpoint=True)
    data, _, zero = net.op("DynamicQuantizeLinear", "x", outputs=3)
    if dtype == np.int8:
        half = net.const(np.array(128, np.int32))
        data, zero = (
            net.op("Cast", net.op("Sub", net.op("Cast", v, to=onnx.TensorProto.INT32), half),
                   to=onnx.TensorProto.INT8)
            for v in (data, zero)
        )  # fmt: skip
    model = net.model(net.op(op, data, net.const(weight), zero, **attrs))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.INT32
    return model


INTEGER_LAYERS: dict[str, tuple[Any, ...]] = {
    "padded": ("ConvInteger", (2, 18, 9, 8), (24, 18, 3, 3), {"pads": [1, 2, 0, 1]}),
    "grouped": ("ConvInteger", (1, 32, 9, 9), (32, 8, 3, 3), {"group": 4, "strides": [2, 2]}),
    "signal": ("ConvInteger", (2, 18, 30), (24, 18, 5), {"pads": [2, 1]}),
    "matrix": ("MatMulInteger", (7, 40), (40, 33), {}),
    "stack": ("MatMulInteger", (2, 5, 48), (48, 64), {}),
    "vector": ("MatMulInteger", (1, 40), (40, 16), {}),
}


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("name", INTEGER_LAYERS)
def test_zero_points_of_run_time_leave_integer_kernels(name: str, dtype: Any):
    op, *shapes, attrs = INTEGER_LAYERS[name]
    model = moving(op, dtype, *shapes, **attrs)
    feeds = small_input(model)
    compiled = tvmconv.build(model, threads=1)
    (decision,) = compiled.decisions
    assert decision.workload.types.output == "int32"
    (actual,) = compiled.run(feeds).values()
    (expected,) = unoptimised(model, feeds)
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > 5


@pytest.mark.parametrize("shape", [(6, 40), (2, 5, 48), (3, 4, 7, 32)])
def test_rows_of_matrices_are_pixels(shape: tuple[int, ...]):
    net = QuantisedNet(*shape, seed=7)
    values = net.generator.integers(-128, 127, (shape[-1], 33), np.int8)
    scale = (net.generator.uniform(0.5, 1.5, 33) / 500).astype(np.float32)
    parts = (values, scale, np.zeros(33, np.int8))
    weight = net.op("DequantizeLinear", *map(net.const, parts), axis=1)
    y = net.rounded(net.op("Relu", net.op("MatMul", net.rounded("x"), weight)))
    model = net.model(y)
    feeds = small_input(model)
    compiled = tvmconv.build(model, threads=1)
    (decision,) = compiled.decisions
    assert decision.workload.in_width == np.prod(shape[:-1])
    np.testing.assert_array_equal(compiled.run(feeds)[y], unoptimised(model, feeds)[0])
