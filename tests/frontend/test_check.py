"""Checks of models before a build, cuts at named values, and the advice in refusals."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model


def partly_known() -> onnx.ModelProto:
    """Two readable outputs; Foo, its follower and a Resize with run-time scales are refused."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("Foo", ["r"], ["f"], "foo", domain="other"),
        helper.make_node("Add", ["f", "r"], ["g"], "add"),
        helper.make_node("Sigmoid", ["r"], ["y"], "sigmoid"),
        helper.make_node("Resize", ["r", "", "scales"], ["z"], "resize"),
    ]
    inputs = {"x": (1, 3, "height", 6), "scales": (4,)}
    model = make_model(nodes, inputs, ["y", "g", "z"], {"w": noise(4, 3, 3, 3)})
    model.opset_import.append(helper.make_opsetid("other", 1))
    return model


def test_all_refused_nodes_are_found_at_once() -> None:
    found = tvmconv.check(partly_known(), shapes={"height": 5})
    assert not found.ok
    assert [(r.node, r.operator) for r in found.refused] == [("foo", "Foo"), ("resize", "Resize")]
    assert found.unread == 1
    assert found.operators == {"Conv": 1, "Relu": 1, "Sigmoid": 1}
    assert found.cut == ("r", "y")


def test_the_cut_that_a_check_proposes_builds() -> None:
    model = partly_known()
    cut = tvmconv.check(model, shapes={"height": 5}).cut
    found = tvmconv.check(model, shapes={"height": 5}, outputs=cut)
    assert found.ok
    assert [str(info) for info in found.inputs] == ["x: float32[1, 3, 5, 6]"]
    assert [str(info) for info in found.outputs] == [
        "r: float32[1, 4, 3, 4]",
        "y: float32[1, 4, 3, 4]",
    ]


def test_missing_sizes_and_refused_operators_are_told_together() -> None:
    found = tvmconv.check(partly_known())
    assert "--dim height=224" in found.missing
    assert [refusal.operator for refusal in found.refused] == ["Foo"]
    assert found.unread == 5


def test_a_refusal_names_the_cut() -> None:
    with pytest.raises(ModelError, match=r"node 'foo' \(Foo\).*--outputs r,y,z"):
        read_model(partly_known(), {"height": 5})


def test_a_cut_model_computes_its_values() -> None:
    model = partly_known()
    data = {"x": noise(1, 3, 5, 6)}
    built = tvmconv.build(model, shapes={"height": 5}, outputs=["y", "c"])
    actual = built.run(data)
    known = make_model(
        [*model.graph.node[:2], model.graph.node[4]],
        {"x": (1, 3, 5, 6)},
        ["y", "c"],
        {"w": onnx.numpy_helper.to_array(model.graph.initializer[0])},
    )
    for name, expected in zip(("y", "c"), run_reference(known, data), strict=True):
        np.testing.assert_allclose(actual[name], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (["relo"], "No node of the model makes them"),
        (["x"], "No node of the model makes them"),
        ([], "must be a sequence of names"),
        ("r", "must be a sequence of names"),
        (["r", "r"], "twice"),
    ],
)
def test_wrong_outputs(outputs: object, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        read_model(partly_known(), {"height": 5}, outputs=outputs)  # type: ignore[arg-type]


def test_nodes_that_conversion_refuses_are_found() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "relu"),
        helper.make_node("GridSample", ["r", "grid"], ["v"], "sample", mode="other"),
        helper.make_node("Sigmoid", ["v"], ["y"], "sigmoid"),
    ]
    model = make_model(nodes, {"x": (1, 1, 4, 4), "grid": (1, 2, 2, 2)}, ["y"])
    found = tvmconv.check(model)
    assert [refusal.node for refusal in found.refused] == ["sample"]
    assert found.cut == ("r",)
