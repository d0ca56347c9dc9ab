"""Networks that combine the images of a batch are refused, and others are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner

from tests.frontend.batch_models import made, node
from tvmconv.cli.main import app
from tvmconv.core.errors import ModelError
from tvmconv.frontend.check import check
from tvmconv.frontend.read import ShapedModel
from tvmconv.report.checked import check_report

ONES = np.ones((1, 4), np.float32)
REFUSED = {
    "Softmax over images": ([node("Softmax", ["x"], ["y"], "mixer", axis=0)], {}, "axis 0"),
    "mean of images": ([node("ReduceMean", ["x"], ["y"], "mixer", axes=[0])], {}, "axis 0"),
    "sum of all": ([node("ReduceSum", ["x"], ["y"], "mixer", keepdims=0)], {}, "axis 0"),
    "merged by Reshape": (
        [node("Reshape", ["x", "s"], ["y"], "mixer")],
        {"s": np.array([1, -1])},
        "moves the images to axis 1",
    ),
    "first image": (
        [node("Gather", ["x", "i"], ["y"], "mixer", axis=0)],
        {"i": np.array([0])},
        "axis 0",
    ),
    "joined": ([node("Concat", ["x", "c"], ["y"], "mixer", axis=0)], {"c": ONES}, "axis 0"),
    "products of images": (
        [node("Transpose", ["x"], ["t"]), node("MatMul", ["x", "t"], ["y"], "mixer")],
        {},
        "axis 1",
    ),
    "divided by their number": (
        [
            node("Shape", ["x"], ["s"], end=1),
            node("Cast", ["s"], ["n"], to=1),
            node("Div", ["x", "n"], ["y"], "mixer"),
        ],
        {},
        "depends on the batch size",
    ),
    "axis without images": (
        [node("Squeeze", ["x", "i"], ["y"], "mixer")],
        {"i": np.array([0])},
        "one image, and not two",
    ),
    "numbers of images as a bias of columns": (
        [
            node("ReduceMax", ["x"], ["b"], axes=[1], keepdims=0),
            node("Gemm", ["x", "w", "b"], ["y"], "mixer"),
        ],
        {"w": np.ones((4, 2), np.float32)},
        "adds a bias whose rows are not images",
    ),
    "running sum": (
        [node("CumSum", ["x", "i"], ["y"], "mixer")],
        {"i": np.array(0)},
        "axis 0",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_networks_that_combine_images(case: str) -> None:
    nodes, weights, why = REFUSED[case]
    with pytest.raises(ModelError, match=rf"node 'mixer' .*{why}"):
        ShapedModel(made(nodes, {"x": ["N", 4]}, weights), None, batch="any").read(0)


def test_other_outputs_and_inputs_that_are_refused() -> None:
    def read(nodes: list[onnx.NodeProto], shape: list[Any], **options: Any) -> None:
        ShapedModel(made(nodes, {"x": shape}, {"c": ONES}), **options, batch="any").read(0)

    def relu_of(name: str) -> onnx.NodeProto:
        return node("Relu", [name], ["y"])

    relu = [relu_of("x")]
    with pytest.raises(ModelError, match=r"node 'turn' .*moves the images to axis 1 of output 'y'"):
        read([node("Transpose", ["x"], ["t"], "turn"), relu_of("t")], ["N", 4], shapes=None)
    with pytest.raises(ModelError, match=r"fixes dimension 0 of input 'x' to 4"):
        read(relu, [4, 4], shapes=None)
    with pytest.raises(ModelError, match="gives 4 images"):
        read(relu, ["N", 4], shapes={"x": (4, 4)})
    with pytest.raises(ModelError, match="gives 4 images"):
        read(relu, ["N", 4], shapes={"N": 4})


def test_a_network_for_one_image_is_applied_to_each() -> None:
    nodes = [node("Relu", ["x"], ["r"]), node("Reshape", ["r", "s"], ["y"])]
    proto = made(nodes, {"x": [1, 2, 3]}, {"s": np.array([1, 6])})
    loaded = ShapedModel(proto, None, batch="any").read(0)
    assert [str(info) for info in loaded.outputs] == ["y: float32[N, 6]"]


def test_sequences_are_separate() -> None:
    """States that are made for the batch size, and images along another axis inside the network."""
    weights = {
        "w": np.ones((1, 32, 4), np.float32),
        "r": np.ones((1, 32, 8), np.float32),
        "one": np.array([1]),
        "hidden": np.array([8]),
    }
    nodes = [
        node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        node("Shape", ["x"], ["n"], end=1),
        node("Concat", ["one", "n", "hidden"], ["size"], axis=0),
        node("ConstantOfShape", ["size"], ["zero"]),
        node("LSTM", ["t", "w", "r", "", "", "zero", "zero"], ["states"], hidden_size=8),
        node("Squeeze", ["states", "one"], ["s"]),
        node("Transpose", ["s"], ["y"], perm=[1, 0, 2]),
    ]
    proto = made(nodes, {"x": ["N", 6, 4]}, weights)
    loaded = ShapedModel(proto, None, batch="any").read(0)
    assert [str(info) for info in loaded.outputs] == ["y: float32[N, 6, 8]"]


def test_a_check_lists_all_nodes_that_combine_images(tmp_path: Path) -> None:
    nodes = [
        node("Softmax", ["x"], ["a"], "soft", axis=0),
        node("Relu", ["x"], ["b"], "relu"),
        node("ReduceMean", ["b"], ["c"], "mean"),
        node("Add", ["a", "c"], ["y"], "add"),
    ]
    path = tmp_path / "mixes.onnx"
    onnx.save(made(nodes, {"x": ["N", 4]}), path)
    found = check(path, batch="any")
    assert [each.node for each in found.refused] == ["soft", "mean"]
    assert all("batch='any'" in each.error for each in found.refused)
    assert (found.unread, found.cut, found.batch) == (1, ("b",), "")
    assert str(check(path, batch="any", outputs=found.cut).outputs[0]) == "b: float32[N, 4]"
    assert check(path, shapes={"N": 3}).ok
    shown = CliRunner().invoke(app, ["check", str(path), "--batch", "any", "--json"])
    assert shown.exit_code == 1 and len(json.loads(shown.stdout)["refused"]) == 2


@pytest.mark.parametrize(
    ("nodes", "size", "problem"),
    [
        ([node("Relu", ["x"], ["y"])], 4, "fixes dimension 0 of input 'x' to 4"),
        ([node("Relu", ["c"], ["y"])], "N", "output 'y' is equal for all images"),
    ],
)
def test_a_check_of_what_no_node_causes(nodes: list[Any], size: Any, problem: str) -> None:
    proto = made(nodes, {"x": [size, 4]}, {"c": ONES})
    found = check(proto, batch="any")
    assert problem in found.batch and not found.ok and not found.refused
    assert problem in str(check_report(found))
    with pytest.raises(ModelError, match="'5'"):
        check(proto, batch="5")
    with pytest.raises(ModelError, match="sequence of positive integers"):
        check(proto, batch="any", shapes={"x": [(1, 4), (1, 4)]})  # type: ignore[dict-item]
