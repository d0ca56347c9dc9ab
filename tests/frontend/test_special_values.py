"""Operators of NaN, infinities, signed zeros, denormals and huge numbers, and large offsets."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.graph.quantised_net import unoptimised

INF = np.inf
LOWEST = np.finfo(np.float32).min
# fmt: off
VALUES = np.array(
    [np.nan, INF, -INF, 0.0, -0.0, 1e-45, 1e-40, 1.2e-38, -1e-40, -LOWEST, LOWEST, 88.7, -87, 1],
    np.float32,
)
# fmt: on


def run(nodes: list[Any], feeds: dict[str, Any], constants: dict[str, Any], **outputs: int) -> Any:
    """Results of tvmconv and of onnxruntime for a graph, each a list of the outputs."""
    types = helper.np_dtype_to_tensor_dtype
    graph = helper.make_graph(
        nodes,
        "special",
        [helper.make_tensor_value_info(k, types(v.dtype), v.shape) for k, v in feeds.items()],
        [helper.make_tensor_value_info(k, dtype, None) for k, dtype in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    ours = tvmconv.build(model, threads=1).run(feeds)
    return [ours[name] for name in outputs], unoptimised(model, feeds)


def test_infinities_of_the_signs_that_attributes_select():
    signs = {"both": (1, 1), "up": (0, 1), "down": (1, 0), "neither": (0, 0)}
    nodes = [
        helper.make_node("IsInf", ["x"], [name], detect_negative=down, detect_positive=up)
        for name, (down, up) in signs.items()
    ]
    ours, expected = run(nodes, {"x": VALUES}, {}, **dict.fromkeys(signs, TensorProto.BOOL))
    np.testing.assert_array_equal(ours, expected)
    assert [int(found.sum()) for found in ours] == [2, 1, 1, 0]


def test_special_values_of_elementwise_operators():
    nodes = [
        helper.make_node("Cast", ["x"], ["bool"], to=TensorProto.BOOL),
        helper.make_node("Cast", ["inside"], ["wrapped"], to=TensorProto.UINT16),
        helper.make_node("Less", ["x", "one"], ["less"]),
        helper.make_node("Not", ["less"], ["not_less"]),
        helper.make_node("Equal", ["x", "x"], ["same"]),
        helper.make_node("Not", ["same"], ["not_same"]),
        helper.make_node("Pow", ["x", "half"], ["root"]),
        helper.make_node("Log", ["x"], ["log"]),
        helper.make_node("Exp", ["x"], ["exp"]),
        helper.make_node("Pow", ["x", "three"], ["cube"]),
    ]
    constants = {"one": np.float32(1), "half": np.float32(0.5), "three": np.float32(3)}
    kinds = dict.fromkeys(("bool", "not_less", "not_same"), TensorProto.BOOL)
    kinds |= dict.fromkeys(("root", "log", "exp", "cube"), TensorProto.FLOAT)
    inside = np.array([-2.5, -1, 0, 65535.5], np.float32)
    feeds = {"x": VALUES, "inside": inside}
    ours, expected = run(nodes, feeds, constants, wrapped=TensorProto.UINT16, **kinds)
    for actual, wanted in zip(ours, expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-6, atol=2e-38)
    assert not np.signbit(ours[4][4])


def test_products_and_quotients_of_the_number_zero():
    pairs = [("Mul", "x", "zero"), ("Div", "x", "zero"), ("Div", "negative", "x"),
             ("Mul", "zero", "one"), ("Div", "one", "zero")]  # fmt: skip
    nodes = [helper.make_node(op, [a, b], [f"y{i}"]) for i, (op, a, b) in enumerate(pairs)]
    constants = {"zero": np.float32(0), "negative": np.float32(-0.0)}
    feeds = {"x": VALUES, "one": np.array(0, np.float32)}
    kinds = {f"y{i}": TensorProto.FLOAT for i in range(len(pairs))}
    ours, expected = run(nodes, feeds, constants, **kinds)
    for actual, wanted in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_extremes_of_nothing_but_infinities():
    x = np.full((2, 16, 6, 6), -INF, np.float32)
    x[1, 3, 2, 4], x[0, 5] = LOWEST, 1
    nodes = [
        helper.make_node("MaxPool", ["x"], ["pool"], kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("MaxPool", ["x"], ["large"], kernel_shape=[6, 6]),
        helper.make_node("ReduceMax", ["x", "axis"], ["largest"]),
        helper.make_node("ArgMax", ["x"], ["place"], axis=3),
        helper.make_node("Neg", ["x"], ["negative"]),
        helper.make_node("ReduceMin", ["negative", "axis"], ["smallest"]),
        helper.make_node("ArgMin", ["negative"], ["low_place"], axis=3),
        helper.make_node("Hardmax", ["x"], ["marked"], axis=3),
    ]
    floats = dict.fromkeys(("pool", "large", "largest", "smallest", "marked"), TensorProto.FLOAT)
    places = {"place": TensorProto.INT64, "low_place": TensorProto.INT64}
    ours, expected = run(nodes, {"x": x}, {"axis": np.array([3])}, **floats, **places)
    # onnxruntime's pools begin with a finite number in some of their kernels
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=-INF)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected[:2] = windows.max((4, 5)), x.max((2, 3), keepdims=True)
    for actual, wanted in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


def test_log_softmax_of_large_equal_numbers():
    x = np.array([[LOWEST] * 3, [1e6, 1e6, 1e6], [3e38, 0, -3e38]], np.float32)
    nodes = [helper.make_node("LogSoftmax", ["x"], ["y"])]
    ours, expected = run(nodes, {"x": x}, {}, y=TensorProto.FLOAT)
    np.testing.assert_allclose(ours[0], expected[0], rtol=1e-6)


@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_statistics_of_numbers_with_a_large_offset(offset: float):
    x = (np.random.default_rng(0).standard_normal((2, 32, 6, 8)) + offset).astype(np.float32)
    ones, zeros = np.ones(32, np.float32), np.zeros(32, np.float32)
    row = {"ones8": ones[:8], "zeros8": zeros[:8], "ones": ones, "zeros": zeros}
    nodes = [
        helper.make_node("LayerNormalization", ["x", "ones8", "zeros8"], ["row"]),
        helper.make_node("InstanceNormalization", ["x", "ones", "zeros"], ["plane"]),
    ]
    kinds = {"row": TensorProto.FLOAT, "plane": TensorProto.FLOAT}
    (rows, planes), _ = run(nodes, {"x": x}, row, **kinds)
    for actual, axes in ((rows, (3,)), (planes, (2, 3))):
        wide = x.astype(np.float64)
        centred = wide - wide.mean(axes, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)
        # half of the last bit of a mean in float32, by the smallest deviation
        assert np.abs(actual - wanted).max() < np.spacing(np.float32(offset)) * 2.5


@pytest.mark.parametrize(
    ("mode", "padding"),
    [
        *product(["nearest"], ["zeros", "border", "reflection"]),
        *product(["cubic"], ["zeros", "border"]),
        # LLVM needs seconds for it
        pytest.param("cubic", "reflection", marks=pytest.mark.slow),
    ],
)
def test_grids_far_outside_of_the_image(mode: str, padding: str):
    image = np.random.default_rng(1).standard_normal((1, 1, 5, 7)).astype(np.float32)
    far = np.array([[1e20, 0], [-1e30, 0.4], [0.4, INF], [-INF, -INF], [4e9, 4e9]], np.float32)
    near = np.array([[50, 0], [-50, 0.4], [0.4, 50], [-50, -50], [0, 0]], np.float32)
    if padding == "reflection":
        # each number of `far` that is finite is a multiple of the period of 4
        near = np.array([[0, 0], [0, 0.4], [0, 0], [0, 0], [0, 0]], np.float32)
        far[2:4] = 4e10
    else:
        near[4] = 50
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode=padding)
    feeds = {"x": image, "grid": np.stack([far, near])[None]}
    ((actual,), (wanted,)) = run([node], feeds, {}, y=TensorProto.FLOAT)
    # rows of the result
    actual, wanted = actual[:, :, 0], wanted[:, :, 1]
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
