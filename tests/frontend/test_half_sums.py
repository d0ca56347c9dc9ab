"""Sums over float16: in float32, rounded once, as onnxruntime has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv

# the bound of FP32 sums and one rounding: an ulp of results below 8
_ULP = 2.0**-8
CASES: dict[str, tuple[list[int], dict[str, tuple[int, ...]], dict[str, Any]]] = {
    "Conv": ([1, 64, 9, 9], {"w": (8, 64, 3, 3), "b": (8,)}, {"pads": [1, 1, 1, 1]}),
    "Conv of rows": ([1, 64, 9], {"w": (8, 64, 3), "b": (8,)}, {}),
    "ConvTranspose": ([1, 64, 5, 5], {"w": (64, 8, 3, 3), "b": (8,)}, {"strides": [2, 2]}),
    "Gemm": ([3, 600], {"w": (8, 600), "b": (8,)}, {"transB": 1, "alpha": 0.5}),
    "MatMul": ([2, 3, 600], {"w": (600, 8)}, {}),
}


@pytest.mark.filterwarnings("ignore:.*plain loops")
@pytest.mark.parametrize("computed", [False, True], ids=["constants", "inputs"])
@pytest.mark.parametrize("case", CASES)
def test_sums_are_rounded_once(case: str, computed: bool) -> None:
    shape, weights, attributes = CASES[case]
    rng = np.random.default_rng(0)
    values = {"x": rng.standard_normal(shape).astype(np.float16)}
    for name, size in weights.items():
        values[name] = (rng.standard_normal(size) / 24).astype(np.float16)
    given = list(values) if computed else ["x"]
    half = TensorProto.FLOAT16
    nodes = [
        helper.make_node(case.split()[0], list(values), ["sums"], "layer", **attributes),
        helper.make_node("Relu", ["sums"], ["y"], "relu"),
    ]
    graph = helper.make_graph(
        nodes,
        "half",
        [helper.make_tensor_value_info(name, half, values[name].shape) for name in given],
        [helper.make_tensor_value_info("y", half, None)],
        [numpy_helper.from_array(a, name) for name, a in values.items() if name not in given],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = {name: values[name] for name in given}
    result = tvmconv.build(model, threads=1, log="none").run(feeds)[0]
    assert result.dtype == np.float16
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    assert np.abs(expected).max() < 8
    np.testing.assert_allclose(result, expected, rtol=0, atol=_ULP)


@pytest.mark.filterwarnings("error:.*plain loops")
def test_quantized_weights_are_packed() -> None:
    """Integers whose scale is float16: a layer in float32 like any other."""
    rng = np.random.default_rng(1)
    integers = rng.integers(-127, 128, (8, 64, 3, 3)).astype(np.int8)
    scale = (rng.uniform(1, 2, 8) / 3000).astype(np.float16)
    weight = (integers * scale.astype(np.float32).reshape(8, 1, 1, 1)).astype(np.float16)
    image = rng.standard_normal((1, 64, 9, 9)).astype(np.float16)

    def model(nodes: list[Any], constants: dict[str, Any]) -> Any:
        graph = helper.make_graph(
            [*nodes, helper.make_node("Conv", ["x", "w"], ["y"], "layer")],
            "quantised",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT16, image.shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT16, None)],
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)

    dequantise = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0)
    quantised = model([dequantise], {"q": integers, "s": scale})
    result = tvmconv.build(quantised, threads=1, log="none").run({"x": image})[0]
    session = ort.InferenceSession(model([], {"w": weight}).SerializeToString())
    (expected,) = session.run(None, {"x": image})
    assert np.abs(expected).max() < 8
    np.testing.assert_allclose(result, expected, rtol=0, atol=_ULP)
