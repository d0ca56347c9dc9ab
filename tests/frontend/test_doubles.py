"""Functions and products of float64 against numpy."""

from __future__ import annotations

from math import erf

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvmconv


def _built(
    nodes: list[onnx.NodeProto], feeds: dict[str, np.ndarray], constants: dict[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Results of all nodes of a model of float64, by name."""
    inputs = [
        helper.make_tensor_value_info(k, TensorProto.DOUBLE, v.shape) for k, v in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info(n.output[0], TensorProto.DOUBLE, None) for n in nodes]
    stored = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    return tvmconv.build(model, threads=1).run(feeds)


def test_functions_keep_their_digits() -> None:
    small = np.logspace(-300, 0, 61)
    x = np.concatenate([np.linspace(-20, 20, 401), small, -small, [710.2, -710.2, 1e3, -1e3, 40.0]])
    x = np.append(x, [1e9, -1e30, np.inf, -np.inf, np.nan, 0.0])
    with np.errstate(all="ignore"):
        expected = {
            "Cosh": np.cosh(x),
            "Sinh": np.sinh(x),
            "Elu": np.where(x > 0, x, np.expm1(x)),
            "Softplus": np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
            "Sin": np.sin(x),
            "Cos": np.cos(x),
            "Tan": np.tan(x),
            "Log": np.log(x),
            "Erf": np.vectorize(erf)(x),
        }
    results = _built([helper.make_node(name, ["x"], [name]) for name in expected], {"x": x}, {})
    for name, wanted in expected.items():
        np.testing.assert_allclose(results[name], wanted, rtol=2e-15, atol=1e-307, err_msg=name)


def test_products_are_those_of_numpy() -> None:
    numbers = np.random.default_rng(0).standard_normal
    left, right, weight, bias = (numbers(s) for s in ((2, 33, 70), (2, 45, 70), (70, 37), (37,)))
    row, thin = numbers((1, 70)), numbers((70, 3))
    nodes = [
        helper.make_node("Einsum", ["left", "right"], ["scores"], equation="bij,bkj->bik"),
        helper.make_node("MatMul", ["left", "weight"], ["product"]),
        helper.make_node("Gemm", ["row", "weight", "bias"], ["layer"]),
        helper.make_node("MatMul", ["left", "thin"], ["narrow"]),
        helper.make_node("Gemm", ["thin", "row"], ["both"], transA=1, transB=1),
    ]
    feeds = {"left": left, "right": right, "row": row, "thin": thin}
    results = _built(nodes, feeds, {"weight": weight, "bias": bias})
    expected = {
        "scores": left @ right.transpose(0, 2, 1),
        "product": left @ weight,
        "layer": row @ weight + bias,
        "narrow": left @ thin,
        "both": thin.T @ row.T,
    }
    for name, wanted in expected.items():
        np.testing.assert_allclose(results[name], wanted, rtol=1e-13, atol=1e-13, err_msg=name)
