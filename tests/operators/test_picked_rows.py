"""Padding by repeated elements, and other constant columns of images, signals and volumes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tvmconv
from tests.frontend.onnx_runner import run, whole_build
from tvmconv.operators.picked_rows import Run, runs_of

# shape, elements before and after, mode
PADDED = [
    ((1, 3, 21, 37), (0, 0, 2, 5), (0, 0, 1, 3), "reflect"),
    ((1, 3, 21, 37), (0, 0, 2, 5), (0, 0, 1, 3), "edge"),
    ((2, 9), (2, 5), (0, 3), "wrap"),
    ((1, 2, 300), (0, 0, 40), (0, 0, 7), "reflect"),
    ((2, 3, 5, 7, 9), (0, 0, 1, 2, 5), (0, 0, 0, 1, 3), "edge"),
]


def test_runs_are_neighbors_mirrored_and_repeated_columns():
    assert runs_of([2, 1, 0, 1, 2, 3]) == [Run(0, 2, -1, 3), Run(3, 1, 1, 3)]
    assert runs_of([0, 0, 0, 1, 2]) == [Run(0, 0, 0, 3), Run(3, 1, 1, 2)]
    assert runs_of([7, 3, 4]) == [Run(0, 7, 1, 1), Run(1, 3, 1, 2)]
    assert runs_of([0, 2] * 9) is None


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool"])
def test_padding_by_repeated_elements(dtype):
    nodes, inputs, outputs, constants, feeds, expected = [], [], [], [], {}, []
    code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    for number, (shape, before, after, mode) in enumerate(PADDED):
        x, pads, y = f"x{number}", f"pads{number}", f"y{number}"
        feeds[x] = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
        inputs.append(helper.make_tensor_value_info(x, code, shape))
        constants.append(numpy_helper.from_array(np.array([*before, *after]), pads))
        nodes.append(helper.make_node("Pad", [x, pads], [y], mode=mode))
        expected.append(np.pad(feeds[x], list(zip(before, after, strict=True)), mode))
        outputs.append(helper.make_tensor_value_info(y, code, expected[-1].shape))
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    for right, result in zip(expected, run(model, feeds, whole_build), strict=True):
        np.testing.assert_array_equal(result, right)


def test_a_padded_signal_is_one_copy():
    graph = helper.make_graph(
        [helper.make_node("Pad", ["x", "p"], ["y"], mode="reflect")],
        "g",
        [helper.make_tensor_value_info("x", 1, (1, 1, 400))],
        [helper.make_tensor_value_info("y", 1, (1, 1, 480))],
        [numpy_helper.from_array(np.array([0, 0, 40, 0, 0, 40]), "p")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built = tvmconv.build(model, threads=1)
    assert [call.operator for call in built.calls] == ["tvmconv.pick"]
