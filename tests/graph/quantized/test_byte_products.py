"""Products of two INT8 matrices that are computed at run time, against integers of 64 bits."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tvmconv
from tests.graph.quantised_net import small_input, unoptimised

CODES = {"uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "int32": TensorProto.INT32}
# shapes of both matrices and of both zero points; None for an absent one
PRODUCTS = {
    "tails": ((5, 33), (33, 7), (), ()),
    "squares": ((64, 64), (64, 64), None, None),
    "batch": ((3, 17, 30), (3, 30, 45), (), ()),
    "rows": ((2, 3, 6, 20), (20, 33), (), (33,)),
    "broadcast": ((2, 1, 9, 31), (1, 3, 31, 20), (), ()),
    "one_left": ((17, 31), (2, 31, 16), (17,), None),
    "column": ((40, 34), (34, 1), (), ()),
    "parameters": ((33, 5), (5, 18), (33,), (18,)),
}


def _model(types: tuple[str, str]) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """All products in one model, and the values of its inputs, the extreme ones among them."""
    generator = np.random.default_rng(5)
    nodes, feeds = [], {}
    for name, shapes in PRODUCTS.items():
        operands = []
        for place, shape in enumerate(shapes):
            dtype = np.dtype(types[place % 2])
            operand = "" if shape is None else f"{name}{place}"
            operands.append(operand)
            if shape is not None:
                limits = np.iinfo(dtype)
                feeds[operand] = generator.integers(limits.min, limits.max, shape, dtype, True)
        feeds[operands[0]].flat[0] = np.iinfo(types[0]).max
        while not operands[-1]:
            operands.pop()
        nodes.append(helper.make_node("MatMulInteger", operands, [name], name))
    inputs = [
        helper.make_tensor_value_info(name, CODES[str(value.dtype)], value.shape)
        for name, value in feeds.items()
    ]
    outputs = [helper.make_tensor_value_info(name, CODES["int32"], None) for name in PRODUCTS]
    graph = helper.make_graph(nodes, "products", inputs, outputs)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    ), feeds


def _expected(name: str, feeds: dict[str, np.ndarray]) -> np.ndarray:
    left, right, *zeros = (
        None if shape is None else feeds[f"{name}{place}"].astype(np.int64)
        for place, shape in enumerate(PRODUCTS[name])
    )
    if zeros[0] is not None:
        left = left - (zeros[0][:, None] if zeros[0].ndim else zeros[0])
    return left @ (right if zeros[1] is None else right - zeros[1])


@pytest.mark.parametrize("types", [("uint8", "int8"), ("int8", "uint8")])
def test_products_of_run_time_bytes_are_exact(types: tuple[str, str]) -> None:
    model, feeds = _model(types)
    built = tvmconv.build(model, threads=2, log="none")
    assert sum(call.operator == "pack_columns" for call in built.calls) == len(PRODUCTS)
    for name, actual in built.run(feeds).items():
        np.testing.assert_array_equal(actual, _expected(name, feeds), name)


def test_constants_and_operators_after_a_product() -> None:
    """An attention's form: scores of two quantized tensors, and a constant batch of matrices."""
    generator = np.random.default_rng(2)
    constant = generator.integers(-128, 128, (2, 24, 19)).astype(np.int8)
    node = helper.make_node
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        node("Transpose", ["q"], ["t"], perm=[0, 2, 1]),
        node("MatMulInteger", ["q", "t", "z", "z"], ["scores"]),
        node("Cast", ["scores"], ["wide"], to=TensorProto.FLOAT),
        node("Mul", ["wide", "s"], ["scaled"]),
        node("Relu", ["scaled"], ["y"]),
        node("MatMulInteger", ["q", "c", "z"], ["sums"]),
    ]
    graph = helper.make_graph(
        nodes,
        "scores",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (2, 15, 24))],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("sums", TensorProto.INT32, None),
        ],
        [numpy_helper.from_array(constant, "c")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = small_input(model)
    built = tvmconv.build(model, threads=1, log="none")
    assert [call.operator for call in built.calls].count("pack_columns") == 2
    for actual, expected in zip(built.run(feeds).values(), unoptimised(model, feeds), strict=True):
        np.testing.assert_allclose(actual, expected, 1e-6)
