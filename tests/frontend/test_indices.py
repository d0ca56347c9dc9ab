"""Operators whose indices a model computes: results, and indices outside a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmconv
from tests.emulated_gpu import Built, needs_emulator, needs_nvcc
from tests.frontend.onnx_runner import run_reference
from tvmconv.core.errors import DataError, ModelError


def model(
    op: str, operands: Mapping[str, np.ndarray], opset: int = 18, **attrs: Any
) -> onnx.ModelProto:
    """One node, whose operands are all inputs."""
    inputs = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in operands.items()
    ]
    first = inputs[0].type.tensor_type.elem_type
    graph = helper.make_graph(
        [helper.make_node(op, list(operands), ["y"], "node", **attrs)],
        "indices",
        inputs,
        [helper.make_tensor_value_info("y", first, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def draw(*shape: int, low: int = 0, high: int = 0) -> np.ndarray:
    """Data, or indices if there are limits."""
    random = np.random.default_rng(len(shape))
    if high:
        return random.integers(low, high, shape)
    return random.standard_normal(shape).astype(np.float32)


X = draw(3, 4, 5)
CASES = [
    ("Gather", {"axis": 1}, draw(2, 2, low=-4, high=4), None),
    ("GatherElements", {"axis": -1}, draw(2, 4, 7, low=-5, high=5), None),
    ("GatherElements", {"axis": 1}, draw(3, 7, 5, low=-4, high=4), None),
    ("GatherElements", {"axis": 2}, draw(3, 4, 37, low=-5, high=5), None),
    ("GatherElements", {"axis": 0}, draw(7, 4, 5, low=-3, high=3), None),
    ("GatherND", {"batch_dims": 1}, draw(3, 2, 2, low=-4, high=4), None),
    ("ReverseSequence", {"batch_axis": 0, "time_axis": 1}, draw(3, low=1, high=5), None),
    ("ScatterElements", {"axis": 1, "reduction": "add"}, draw(2, 6, 5, low=-4, high=4), (2, 6, 5)),
    ("ScatterElements", {"axis": 0}, draw(7, 3, 4, low=-3, high=3), (7, 3, 4)),
    ("ScatterND", {"reduction": "max"}, draw(9, 2, low=-3, high=3), (9, 5)),
    ("ScatterND", {"reduction": "mul"}, draw(6, 1, low=-3, high=3), (6, 4, 5)),
]
SCATTERED = {"x": (4, 8), "u": (2, 8)}


@pytest.mark.parametrize(("op", "attrs", "index", "updates"), CASES)
def test_computed_indices_are_used_and_others_reported(
    op: str, attrs: dict[str, Any], index: np.ndarray, updates: tuple[int, ...] | None
) -> None:
    feeds = {"x": X, "i": index} if updates is None else {"x": X, "i": index, "u": draw(*updates)}
    network = model(op, feeds, **attrs)
    built = tvmconv.build(network)
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])
    for wrong in (5, -6, 1 << 62, -(1 << 62)):
        outside = index.copy()
        outside.reshape(-1)[-1] = wrong
        with pytest.raises(DataError, match=rf"node 'node' \({op}\): input 'i'"):
            built.run({**feeds, "i": outside})
    # the state of a call that failed is used again
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])


@needs_nvcc
@needs_emulator
def test_lengths_outside_are_clamped_on_gpus(tmp_path: Path) -> None:
    """Negative lengths do not count from the end."""
    feeds = {"x": draw(4, 3), "i": np.array([4, -1, 9])}
    network = model("ReverseSequence", feeds, batch_axis=1, time_axis=0)
    (result,) = Built(tmp_path / "network", network).run(feeds)
    wanted = feeds["x"][::-1].copy()
    wanted[:, 1] = feeds["x"][:, 1]
    np.testing.assert_array_equal(result, wanted)


def test_rows_that_do_not_fit_a_cache_are_reported() -> None:
    feeds = {"x": draw(2, 6, 3), "u": draw(2, 2, 3), "i": np.array([4, 0])}
    built = tvmconv.build(model("TensorScatter", feeds, 24))
    wanted = feeds["x"].copy()
    wanted[0, 4:], wanted[1, :2] = feeds["u"]
    np.testing.assert_array_equal(built.run(feeds)["y"], wanted)
    for wrong in (5, -1):
        with pytest.raises(DataError, match=r"TensorScatter.*'i' .*Expected 0 to 4"):
            built.run({**feeds, "i": np.array([0, wrong])})


@pytest.mark.parametrize("op", ["GatherElements", "ScatterElements"])
def test_a_number_has_no_axis_to_index(op: str) -> None:
    number = np.float32(1)
    feeds = {"x": number, "i": np.int64(0)} | ({"u": number} if op[0] == "S" else {})
    with pytest.raises(ModelError, match=rf"'node' \({op}\): its data is a number without axes"):
        tvmconv.build(model(op, feeds))


@pytest.mark.parametrize("storage_order", [0, 1])
def test_places_of_the_largest_elements(storage_order: int) -> None:
    window = {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 0, 1, 1]}
    node = helper.make_node(
        "MaxPool", ["x"], ["y", "places"], "pool", storage_order=storage_order, **window
    )
    graph = helper.make_graph(
        [node],
        "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 9, 11])],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
            helper.make_tensor_value_info("places", TensorProto.INT64, None),
        ],
    )
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = {"x": np.round(draw(2, 3, 9, 11))}
    results = tvmconv.build(network).run(feeds)
    for actual, expected in zip(results.values(), run_reference(network, feeds), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_elements_are_put_back_where_a_pool_found_them() -> None:
    index = np.random.default_rng(0).permutation(2 * 36)[:18].reshape(1, 2, 3, 3)
    feeds = {"x": draw(1, 2, 3, 3), "i": index}
    network = model("MaxUnpool", feeds, kernel_shape=[2, 2], strides=[2, 2])
    built = tvmconv.build(network)
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])
    with pytest.raises(DataError, match="Expected 0 to 71"):
        built.run({"x": feeds["x"], "i": index - 1 - index.min()})


def test_one_hot_of_computed_indices() -> None:
    index = np.array([[0, 3, -1], [-4, 4, -5]])
    graph = helper.make_graph(
        [helper.make_node("OneHot", ["i", "depth", "values"], ["y"], axis=1)],
        "one_hot",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, index.shape),
            helper.make_tensor_value_info("values", TensorProto.FLOAT, [2]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("depth", TensorProto.INT64, [1], [4])],
    )
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    feeds = {"i": index, "values": np.array([-1, 2], np.float32)}
    result = tvmconv.build(network).run(feeds)["y"]
    np.testing.assert_array_equal(result, run_reference(network, feeds)[0])


def test_an_index_that_selects_the_only_element_is_checked() -> None:
    built = tvmconv.build(model("Gather", {"x": draw(3, 1), "i": draw(1, low=0, high=1)}, axis=1))
    with pytest.raises(DataError, match="Expected -1 to 0"):
        built.run({"x": draw(3, 1), "i": np.array([1])})


def test_indices_of_known_range_are_not_checked() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("TopK", ["x", "k"], ["values", "places"]),
            helper.make_node("Div", ["places", "two"], ["half"]),
            helper.make_node("Gather", ["x", "half"], ["y"], axis=0),
        ],
        "known",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("k", TensorProto.INT64, [1], [3]),
         helper.make_tensor("two", TensorProto.INT64, [], [2])],
    )  # fmt: skip
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    built, feeds = tvmconv.build(network), {"x": draw(8)}
    assert not any(call.check for call in built.calls)
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])


def test_data_that_are_read_after_a_scatter_stay_as_they_were() -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Neg", ["x"], ["a"]),
            helper.make_node("ScatterND", ["a", "i", "u"], ["b"]),
            helper.make_node("ScatterND", ["b", "j", "u"], ["c"]),
            helper.make_node("Mul", ["a", "c"], ["y"]),
        ],
        "scatters",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in SCATTERED.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [helper.make_tensor("i", TensorProto.INT64, [2, 1], [1, 0]),
         helper.make_tensor("j", TensorProto.INT64, [2, 1], [3, 0])],
    )  # fmt: skip
    network = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    built = tvmconv.build(network)
    feeds = {name: draw(*shape) for name, shape in SCATTERED.items()}
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])
    # the second one changes the result of the first one, which nobody else reads
    assert [call.operator for call in built.calls].count("copy") == 1


def test_elements_of_every_type_are_picked() -> None:
    """Vectors of lines, and what remains of them."""
    index, nodes, inputs, outputs, feeds = draw(2, 19, 3, low=-7, high=7), [], [], [], {}
    for dtype in ("bool", "uint8", "int64", "float16", "float64"):
        feeds[dtype] = draw(2, 7, 3, low=0, high=2).astype(dtype)
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        inputs.append(helper.make_tensor_value_info(dtype, code, (2, 7, 3)))
        nodes.append(helper.make_node("GatherElements", [dtype, "i"], [f"y_{dtype}"], axis=1))
        outputs.append(helper.make_tensor_value_info(f"y_{dtype}", code, None))
    inputs.append(helper.make_tensor_value_info("i", TensorProto.INT32, index.shape))
    graph = helper.make_graph(nodes, "types", inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    found = tvmconv.build(made, threads=1).run({**feeds, "i": index.astype(np.int32)})
    for dtype, x in feeds.items():
        expected = np.take_along_axis(x, index, 1)
        np.testing.assert_array_equal(found[f"y_{dtype}"], expected, strict=True)
