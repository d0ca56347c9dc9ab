"""Operators whose indices a model computes: results, and indices outside a tensor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmconv
from tests.frontend.onnx_runner import run_reference
from tvmconv.core.errors import DataError


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
GATHERS = {
    "Gather": ({"axis": 1}, draw(2, 2, low=-4, high=4)),
    "GatherElements": ({"axis": -1}, draw(2, 4, 7, low=-5, high=5)),
    "GatherND": ({"batch_dims": 1}, draw(3, 2, 2, low=-4, high=4)),
}


@pytest.mark.parametrize("op", GATHERS)
def test_gathers_read_at_computed_indices_and_report_others(op: str) -> None:
    attrs, index = GATHERS[op]
    feeds = {"x": X, "i": index}
    network = model(op, feeds, **attrs)
    built = tvmconv.build(network)
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])
    for wrong in (5, -6, 1 << 62, -(1 << 62)):
        outside = index.copy()
        outside[0, -1] = wrong
        with pytest.raises(DataError, match=rf"node 'node' \({op}\): input 'i'"):
            built.run({"x": X, "i": outside})
    # the state of a call that failed is used again
    np.testing.assert_array_equal(built.run(feeds)["y"], run_reference(network, feeds)[0])


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
