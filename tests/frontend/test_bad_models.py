"""Damaged and hostile models: an error that says what and where, never a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.frontend.bad_models import conv_model, refuse
from tests.frontend.onnx_runner import make_model, noise

CONVOLUTIONS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "weight rank": (lambda: conv_model((4, 3, 3)), "rank"),
    "channels": (lambda: conv_model((4, 2, 3, 3)), "channels"),
    "groups": (lambda: conv_model((4, 1, 3, 3), group=2), "channels"),
    "groups and outputs": (lambda: conv_model((4, 1, 3, 3), group=3), "does not divide"),
    "zero groups": (lambda: conv_model(group=0), "group=0"),
    "negative groups": (lambda: conv_model(group=-1), "group=-1"),
    "bias length": (lambda: conv_model(bias=(5,)), "bias"),
    "bias rank": (lambda: conv_model(bias=(4, 1)), "bias"),
    "two pads": (lambda: conv_model(pads=[1, 1]), "pads"),
    "many pads": (lambda: conv_model(pads=[1] * 50), "pads"),
    "negative pads": (lambda: conv_model(pads=[-1, 0, 0, 0]), "pads"),
    "huge pads": (lambda: conv_model(pads=[2**62] * 4), "pads"),
    "one stride": (lambda: conv_model(strides=[1]), "strides"),
    "zero stride": (lambda: conv_model(strides=[0, 1]), "strides"),
    "huge stride": (lambda: conv_model(strides=[2**63 - 1, 1]), "strides"),
    "zero dilation": (lambda: conv_model(dilations=[1, 0]), "dilations"),
    "huge dilation": (lambda: conv_model(dilations=[2**40, 1]), "dilations"),
    "kernel_shape": (lambda: conv_model(kernel_shape=[5, 3]), "kernel_shape"),
    "kernel_shape length": (lambda: conv_model(kernel_shape=[3]), "kernel_shape"),
    "kernel too large": (lambda: conv_model((4, 3, 9, 9)), "does not fit"),
    "auto_pad": (lambda: conv_model(auto_pad="SAME"), "auto_pad"),
    "auto_pad and pads": (lambda: conv_model(auto_pad="VALID", pads=[1] * 4), "exclude"),
    "memory": (lambda: conv_model(pads=[2**23] * 4), "elements"),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_malformed_convolution(name: str) -> None:
    make, word = CONVOLUTIONS[name]
    refuse(make(), "conv1", "Conv", word)


POOLS = {
    "no kernel": {},
    "kernel length": {"kernel_shape": [3]},
    "zero kernel": {"kernel_shape": [0, 3]},
    "huge kernel": {"kernel_shape": [2**50, 3]},
    "does not fit": {"kernel_shape": [30, 3]},
    "pads length": {"kernel_shape": [3, 3], "pads": [1, 1]},
}


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_malformed_pooling(name: str, kind: str) -> None:
    node = helper.make_node(kind, ["x"], ["y"], "pool1", **POOLS[name])
    refuse(make_model([node], {"x": (1, 3, 8, 8)}, ["y"]))


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LayerNormalization", {"axis": 2**63 - 1}),
        ("LayerNormalization", {"axis": -5}),
        ("Softmax", {"axis": 4}),
        ("Concat", {"axis": -(2**63)}),
        ("Flatten", {"axis": 5}),
        ("Transpose", {"perm": [0, 1, 2, 2**40]}),
        ("DepthToSpace", {"blocksize": 0}),
        ("SpaceToDepth", {"blocksize": -2}),
        ("Split", {"num_outputs": 0}),
        ("LRN", {"size": 0}),
        ("Transpose", {"perm": [0, 1]}),
    ],
)
def test_integers_out_of_range(operator: str, attributes: dict[str, Any]) -> None:
    inputs = ["x", "s"] if operator == "LayerNormalization" else ["x"]
    node = helper.make_node(operator, inputs, ["y"], "node1", **attributes)
    model = make_model([node], {"x": (1, 4, 8, 8)}, ["y"], {"s": noise(8)}, opset=18)
    refuse(model, "node1", operator, next(iter(attributes)))


def test_lists_of_the_wrong_length() -> None:
    for operator, opset, attributes, lists in (
        ("Split", 11, {"split": [1, 1, 1, 1]}, []),
        ("Split", 13, {}, [[1, 1, 2]]),
        ("Slice", 9, {"starts": [0], "ends": [1, 1]}, []),
        ("Slice", 13, {}, [[0, 0], [1, 1], [0]]),
        ("Pad", 10, {"pads": [1] * 7}, []),
        ("Pad", 13, {}, [[1] * 9]),
        ("Tile", 13, {}, [[2, 2]]),
    ):
        constants = {f"c{i}": np.array(v, np.int64) for i, v in enumerate(lists)}
        node = helper.make_node(operator, ["x", *constants], ["y"], "node1", **attributes)
        model = make_model([node], {"x": (1, 4, 8, 8)}, ["y"], constants, opset=opset)
        refuse(model, "node1", operator, "values")


def test_malformed_transposed_convolution() -> None:
    for weight, attributes in (
        ((4, 2, 3, 3), {}),
        ((3, 2, 3), {}),
        ((3, 2, 3, 3), {"group": 2}),
        ((3, 2, 3, 3), {"output_padding": [1]}),
        ((3, 2, 3, 3), {"output_shape": [0, 4]}),
        ((3, 2, 3, 3), {"pads": [40, 0, 0, 0]}),
    ):
        node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up1", **attributes)
        model = make_model([node], {"x": (1, 3, 4, 4)}, ["y"], {"w": noise(*weight)})
        refuse(model, "up1", "ConvTranspose")


def test_windows_of_more_elements_than_kernels_can_number() -> None:
    far = {"pads": [2**16] * 4}
    pool = helper.make_node("MaxPool", ["x"], ["y"], "pool1", kernel_shape=[3, 3], **far)
    up = {"pads": [2**20 - 2] * 2 + [0, 0], "strides": [2**20, 2**20]}
    grown = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up1", **up)
    refuse(conv_model(dilations=[2**16] * 2, **far), "conv1", "more than 2147483647 elements")
    refuse(make_model([pool], {"x": (1, 3, 8, 8)}, ["y"]), "pool1", "more than 2147483647 elements")
    model = make_model([grown], {"x": (1, 1, 2, 2)}, ["y"], {"w": noise(1, 1, 2, 2)})
    refuse(model, "up1", "more than 2147483647 elements")


@pytest.mark.parametrize("weight", [(1, 1, 8000, 8000), (1, 16, 2000, 2000), (16, 2, 2000, 1000)])
def test_computed_kernels_that_would_be_mostly_padding(weight: tuple[int, ...]) -> None:
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], "fill"),
        helper.make_node("Conv", ["x", "w"], ["y"], "conv1"),
    ]
    model = make_model(nodes, {"x": (1, *weight[1:])}, ["y"], {"shape": np.array(weight)})
    refuse(model, "conv1", "padded to blocks", str(weight))


def relu_chain(*pairs: tuple[str, str]) -> onnx.ModelProto:
    nodes = [helper.make_node("Relu", [a], [b], f"relu_{b}") for a, b in pairs]
    return make_model(nodes, {"x": (1, 4)}, [pairs[-1][1]])


def test_graph_structure() -> None:
    add = helper.make_node("Add", ["x", "b"], ["a"], "add")
    relu = helper.make_node("Relu", ["a"], ["b"], "relu")
    refuse(make_model([add, relu], {"x": (1, 4)}, ["b"]), "add", "cyclic")
    refuse(relu_chain(("a", "a")), "cyclic")
    refuse(relu_chain(("b", "a"), ("a", "b"), ("x", "c")), "cyclic")
    refuse(relu_chain(("x", "a"), ("x", "a")), "already made")
    refuse(relu_chain(("x", "x")), "already made")
    refuse(relu_chain(("nowhere", "a")), "nowhere", "no node")
    model = relu_chain(("x", "a"))
    model.graph.input.append(model.graph.input[0])
    refuse(model, "given twice")
    model = relu_chain(("x", "a"))
    model.graph.output[0].name = "other"
    refuse(model, "other")
    del model.graph.output[:]
    refuse(model, "no outputs")


def test_versions() -> None:
    model = relu_chain(("x", "a"))
    model.ir_version = 999
    refuse(model, "999", "IR version")
    model = relu_chain(("x", "a"))
    model.opset_import[0].version = 999
    refuse(model, "999", "operator set")
    model.opset_import[0].version = 1
    refuse(model, "operator set 1")
    del model.opset_import[:]
    refuse(model, "operator set")


def test_unsupported_operators() -> None:
    node = helper.make_node("SequenceLength", ["x"], ["y"], "length")
    refuse(make_model([node], {"x": (4, 4)}, ["y"]), "length", "SequenceLength")
    node = helper.make_node("StringNormalizer", ["x"], ["y"], "match")
    refuse(make_model([node], {"x": (4, 4)}, ["y"]), "match", "StringNormalizer", "not supported")
    node = helper.make_node("Inverse", ["x"], ["y"], "inverse", domain="com.microsoft")
    refuse(make_model([node], {"x": (4, 4)}, ["y"]), "inverse", "not part of ONNX")
    node = helper.make_node("Nonsense", ["x"], ["y"], "what")
    refuse(make_model([node], {"x": (4, 4)}, ["y"]), "Nonsense")


def test_the_list_of_operators_is_complete() -> None:
    from tvmconv.frontend.convert import CONVERTERS
    from tvmconv.frontend.operators import CONTROL, CONVERTED

    internal = {"Silu"}
    # the reader writes a Scan as a Loop
    assert set(CONVERTERS) - internal == CONVERTED | CONTROL - {"Scan"}


def test_attributes_that_would_be_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    from tvmconv.frontend.convert import CONVERTERS

    # as if a new operator set had added it
    older = replace(CONVERTERS["Elu"], attributes=frozenset())
    monkeypatch.setitem(CONVERTERS, "Elu", older)
    node = helper.make_node("Elu", ["x"], ["y"], "elu1", alpha=2.0)
    refuse(make_model([node], {"x": (1, 8)}, ["y"]), "elu1", "alpha")


def test_weights_of_the_wrong_size() -> None:
    model = conv_model()
    model.graph.initializer[0].raw_data = model.graph.initializer[0].raw_data[:-4]
    refuse(model, "'w'", "damaged")
    model.graph.initializer[0].dims[0] = 2**40
    refuse(model, "'w'", "2147483647")
    del model.graph.initializer[0].dims[:]
    model.graph.initializer[0].dims.extend([2**30, 2**30, 2**30])
    refuse(model, "'w'", "bytes")
    model.graph.initializer[0].dims[0] = -4
    refuse(model, "'w'")


def test_memory_bombs() -> None:
    shape = {"n": np.array([2**20, 2**20, 2**10], np.int64)}
    fill = helper.make_node("ConstantOfShape", ["n"], ["c"], "fill")
    refuse(make_model([fill], {}, ["c"], shape), "fill", "bytes")
    tile = helper.make_node("Expand", ["x", "n"], ["y"], "wide")
    refuse(make_model([tile], {"x": (1,)}, ["y"], shape), "wide", "bytes")
    bounds = {k: np.array(v, np.float32) for k, v in (("a", 0), ("b", 1e30), ("d", 1e-30))}
    node = helper.make_node("Range", ["a", "b", "d"], ["y"], "range")
    refuse(make_model([node], {}, ["y"], bounds), "range")


def test_deep_nesting() -> None:
    body = helper.make_graph([helper.make_node("Relu", ["x"], ["y0"])], "b", [], [_value("y0")])
    for depth in range(1, 30):
        node = helper.make_node("If", ["c"], [f"y{depth}"], then_branch=body, else_branch=body)
        if node.ByteSize() > 2**20:
            break
        body = helper.make_graph([node], "b", [], [_value(f"y{depth}")])
    model = make_model(list(body.node), {"x": (1,)}, [body.output[0].name])
    refuse(model, "nested")


def test_recursive_functions() -> None:
    model = relu_chain(("x", "a"))
    call = helper.make_node("F", ["p"], ["q"], domain="mine")
    model.functions.append(helper.make_function("mine", "F", ["p"], ["q"], [call], []))
    refuse(model, "'F'", "calls itself")


def test_functions_that_grow() -> None:
    model = relu_chain(("x", "a"))
    versions = [helper.make_opsetid("mine", 1), *model.opset_import]
    for depth in range(40):
        op, domain = (f"F{depth - 1}", "mine") if depth else ("Relu", "")
        calls = [helper.make_node(op, [a], [b], domain=domain) for a, b in (("p", "m"), ("m", "q"))]
        function = helper.make_function("mine", f"F{depth}", ["p"], ["q"], calls, versions)
        model.functions.append(function)
    model.opset_import.add(domain="mine", version=1)
    model.graph.node[0].op_type, model.graph.node[0].domain = "F39", "mine"
    refuse(model, "too many nodes")


def test_batch_norm_statistics() -> None:
    node = helper.make_node("BatchNormalization", list("xsbmv"), ["y"], "bn1")
    constants = {k: np.ones(3, np.float32) for k in "sbmv"}
    constants["v"][1] = -1
    refuse(make_model([node], {"x": (1, 3, 4, 4)}, ["y"], constants), "bn1", "variance")


def _value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
