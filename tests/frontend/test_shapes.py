"""Fixing symbolic dimensions, and folding what computes shapes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run, run_reference, whole_build
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model


def symbolic() -> onnx.ModelProto:
    node = helper.make_node("Add", ["x", "m"], ["y"], "add")
    inputs = {"x": ("batch", 3, "height", 8), "m": ("batch", 3, 1, "width")}
    return make_model([node], inputs, ["y"])


def message(model: onnx.ModelProto, shapes: object = None) -> str:
    with pytest.raises(ModelError) as caught:
        read_model(model, shapes)
    return str(caught.value)


def test_missing_shapes_name_input_dimension_and_remedy() -> None:
    text = message(symbolic())
    assert "'x'" in text
    assert "dimension(s) 0, 2" in text
    assert "dimension(s) 0, 3 of (batch, 3, 1, width)" in text
    assert "--shape x:1x3x224x8 --shape m:1x3x1x224" in text
    assert "--dim batch=1 --dim height=224 --dim width=224" in text
    assert "shapes={'x': (1, 3, 224, 8), 'm': (1, 3, 1, 224)}" in text


def test_dimensions_by_name() -> None:
    loaded = read_model(symbolic(), {"batch": 2, "height": 4, "width": 8})
    assert [info.shape for info in loaded.inputs] == [(2, 3, 4, 8), (2, 3, 1, 8)]
    assert "did you mean 'height'" in message(symbolic(), {"hight": 4})
    assert "positive" in message(symbolic(), {"height": 0})


def test_shapes_are_shared_by_name() -> None:
    loaded = read_model(symbolic(), {"x": (2, 3, 4, 8), "m": (2, 3, 1, 8)})
    assert [info.shape for info in loaded.inputs] == [(2, 3, 4, 8), (2, 3, 1, 8)]
    assert [info.shape for info in loaded.outputs] == [(2, 3, 4, 8)]
    text = message(symbolic(), {"x": (2, 3, 4, 8)})
    assert "'m'" in text
    assert "dimension(s) 3" in text
    assert "another input" in message(symbolic(), {"x": (2, 3, 4, 8), "m": (1, 3, 1, 8)})


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((2, 3, 4), "rank 3"),
        ((2, 5, 4, 8), "fixes dimension 1"),
        ((2, 3, 0, 8), "positive"),
        ((2, 3, -1, 8), "positive"),
        ((2, 3, 4.5, 8), "positive"),
        ((2, 3, 2**40, 8), "positive"),
        ("NCHW", "positive"),
        (7, "positive"),
    ],
)
def test_wrong_shapes(shape: object, words: str) -> None:
    assert words in message(symbolic(), {"x": shape})


def test_a_batch_of_a_model_for_one_image_names_the_option() -> None:
    model = make_model([helper.make_node("Relu", ["x"], ["y"])], {"x": (1, 3, 4, 8)}, ["y"])
    assert "--batch any" in message(model, {"x": (2, 3, 4, 8)})
    assert "--batch any" not in message(model, {"x": (1, 3, 5, 8)})


def test_unknown_input_name() -> None:
    text = message(symbolic(), {"data": (1,)})
    assert "data" in text
    assert "'x'" in text


def test_unknown_rank() -> None:
    model = symbolic()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert "shapes={'x'" in message(model)
    shapes = {"x": (2, 3, 4, 8), "m": (2, 3, 1, 8)}
    assert read_model(model, shapes).outputs[0].shape == (2, 3, 4, 8)


def test_inputs_with_initializers_are_constants() -> None:
    model = make_model(
        [helper.make_node("Add", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"], {"w": noise(3)}
    )
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, (3,)))
    assert [info.name for info in read_model(model).inputs] == ["x"]


def flatten_by_shape(opset: int) -> onnx.ModelProto:
    """Exporters write this for x.view(x.size(0), -1)."""
    unsqueeze = (
        helper.make_node("Unsqueeze", ["n"], ["n1"], axes=[0])
        if opset < 13
        else helper.make_node("Unsqueeze", ["n", "zero1"], ["n1"])
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["zero"], value=numpy_helper.from_array(np.int64(0))),
        helper.make_node("Gather", ["s", "zero"], ["n"], axis=0),
        unsqueeze,
        helper.make_node("Concat", ["n1", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"], "flat"),
    ]
    constants = {"minus": np.array([-1], np.int64), "zero1": np.array([0], np.int64)}
    return make_model(nodes, {"x": ("n", 3, 4, 5)}, ["y"], constants, opset=opset)


@pytest.mark.parametrize("opset", [9, 12, 13, 17, 21])
def test_shape_computation_folds_away(opset: int) -> None:
    loaded = read_model(flatten_by_shape(opset), {"x": (2, 3, 4, 5)})
    assert [node.op for node in loaded.graph.nodes] == ["Reshape"]
    assert loaded.outputs[0].shape == (2, 60)


def test_upsample_to_the_size_of_another_tensor() -> None:
    """The feature-pyramid pattern: Shape, Slice, Concat, Resize."""
    nodes = [
        helper.make_node("Shape", ["big"], ["s"]),
        helper.make_node("Slice", ["s", "two", "four", "zero"], ["hw"]),
        helper.make_node("Shape", ["x"], ["t"]),
        helper.make_node("Slice", ["t", "zero", "two", "zero"], ["nc"]),
        helper.make_node("Concat", ["nc", "hw"], ["sizes"], axis=0),
        helper.make_node(
            "Resize", ["x", "", "", "sizes"], ["up"], "up", mode="nearest",
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        ),
        helper.make_node("Add", ["up", "big"], ["y"], "add"),
    ]  # fmt: skip
    constants = {k: np.array([v], np.int64) for k, v in (("zero", 0), ("two", 2), ("four", 4))}
    inputs = {"x": (1, 2, 3, 4), "big": (1, 2, 6, 8)}
    model = make_model(nodes, inputs, ["y"], constants)
    assert [node.op for node in read_model(model).graph.nodes] == ["Resize", "Add"]
    feeds = {name: noise(*shape) for name, shape in inputs.items()}
    np.testing.assert_allclose(run(model, feeds)[0], run_reference(model, feeds)[0], rtol=1e-6)


def test_data_dependent_shapes_are_refused() -> None:
    node = helper.make_node("Reshape", ["x", "s"], ["y"], "reshape1")
    model = make_model([node], {"x": (3, 4)}, ["y"])
    model.graph.input.append(helper.make_tensor_value_info("s", TensorProto.INT64, (2,)))
    assert "reshape1" in message(model)


def test_identity_and_dropout_vanish() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["a"]),
        helper.make_node("Dropout", ["a", "ratio"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"], "relu1"),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    model = make_model(nodes, {"x": (2, 3)}, ["y"], {"ratio": np.float32(0.5)})
    assert [node.op for node in read_model(model).graph.nodes] == ["Relu", "Identity"]
    feeds = {"x": noise(2, 3)}
    np.testing.assert_array_equal(run(model, feeds)[0], np.maximum(feeds["x"], 0))


def test_outputs_that_are_inputs_or_constants() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], {"x": (2, 3)}, ["y", "x", "w"], {"w": noise(2)})
    feeds = {"x": noise(2, 3)}
    results = run(model, feeds)
    for wanted, actual in zip(
        [np.maximum(feeds["x"], 0), feeds["x"], noise(2)], results, strict=True
    ):
        np.testing.assert_array_equal(actual, wanted)


def test_a_split_in_many_parts() -> None:
    """More than one function holds the code of."""
    sizes, x = [1 + i % 3 for i in range(40)], noise(2, 79, 3)
    names = [f"y{i}" for i in range(40)]
    node = helper.make_node("Split", ["x", "sizes"], names, "split", axis=1)
    model = make_model([node], {"x": x.shape}, names, {"sizes": np.array(sizes)})
    for actual, expected in zip(
        run(model, {"x": x}), np.split(x, np.cumsum(sizes)[:-1], axis=1), strict=True
    ):
        np.testing.assert_array_equal(actual, expected)


def test_what_has_no_elements_is_known() -> None:
    """Through operators whose kernels would divide by an empty axis, or leave outputs unset."""
    node = helper.make_node
    nodes = [
        node("Slice", ["x", "one", "one", "one"], ["none"]),
        node("Tile", ["none", "three"], ["more"]),
        node("CumSum", ["more", "axis"], ["sums"]),
        node("Unsqueeze", ["sums", "one"], ["deep"]),
        node("Squeeze", ["deep", "one"], ["flat"]),
        node("Concat", ["x", "none", "x"], ["y"], axis=1),
        node("ReduceMax", ["flat"], ["top"], axes=[1]),
        node("ReduceSum", ["none", "one"], ["total"]),
        node("MatMul", ["none", "weight"], ["product"]),
        node("Add", ["product", "x"], ["z"]),
    ]
    constants = {"one": np.array([1]), "three": np.array([3, 2]), "axis": np.array(0)}
    constants["weight"] = np.zeros((0, 4), np.float32)
    names = ["y", "top", "total", "z", "sums"]
    model = make_model(nodes, {"x": (2, 4)}, names, constants)
    x = noise(2, 4)
    results = run(model, {"x": x}, whole_build)
    for actual, expected in zip(results, run_reference(model, {"x": x}), strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)


@pytest.mark.parametrize(
    ("node", "constants", "named"),
    [
        (("Conv", ["x", "w"]), {"w": noise(8, 3, 5, 5)}, "window of 5"),
        (("MatMul", ["x", "w"]), {"w": noise(9, 4)}, "[(1, 3, 2, 2), (9, 4)]"),
        (("Reshape", ["x", "s"]), {"s": np.array([1, 192])}, "(1, 3, 2, 2) cannot become (1, 192)"),
    ],
    ids=["window", "inference", "reshape"],
)
def test_a_shape_that_the_network_cannot_take(
    node: tuple[str, list[str]], constants: dict[str, np.ndarray], named: str
) -> None:
    """The layer, the shapes, and that another shape may be given."""
    operator, inputs = node
    layer = helper.make_node(operator, inputs, ["y"], "layer")
    given = {"x": (1, 3, 2, 2)}
    model = make_model([layer], {"x": (1, 3, "height", "width")}, ["y"], constants)
    with pytest.raises(ModelError) as caught:
        tvmconv.build(model, "x86-64-v3", shapes=given)
    text = str(caught.value)
    assert f"node 'layer' ({operator})" in text and named in text
    assert f"a shape that the network supports instead of {given}" in text
    fixed = make_model([layer], given, ["y"], constants)
    with pytest.raises(ModelError, match=r"\. Correct the model and export it again\.$"):
        tvmconv.build(fixed, "x86-64-v3")


@pytest.mark.parametrize("name", ["?", "-1", "unk__7", ""])
def test_unknown_sizes_are_sizes_of_their_own(name: str) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    model = make_model([node], {"x": (name, 3, name, name)}, ["y"])
    assert read_model(model, {"x": (1, 3, 4, 5)}).outputs[0].shape == (1, 3, 4, 5)


def test_nodes_are_sorted() -> None:
    nodes = [helper.make_node("Relu", [a], [b], b) for a, b in ("by", "ab", "xa")]
    loaded = read_model(make_model(nodes, {"x": (1, 4)}, ["y"]))
    assert [node.name for node in loaded.graph.nodes] == ["a", "b", "y"]
    assert [node.name for node in nodes] == ["y", "b", "a"]


@pytest.mark.parametrize(("op", "opset"), [("Resize", 13), ("Resize", 10), ("Upsample", 9)])
def test_sizes_by_scales_are_rounded_as_in_onnxruntime(op: str, opset: int) -> None:
    inputs = ["x", "", "s"] if opset > 10 else ["x", "s"]
    node = helper.make_node(op, inputs, ["y"], mode="nearest")
    scales = np.array([1, 1, 1, 7 / 6], np.float32)
    model = make_model([node], {"x": (1, 1, 1, 6)}, ["y"], {"s": scales}, opset=opset)
    dims = model.graph.output[0].type.tensor_type.shape.dim
    for size in (1, 1, 1, 6):
        dims.add(dim_value=size)
    with pytest.warns(UserWarning, match=r"declares 'y' as \(1, 1, 1, 6\), its nodes make"):
        loaded = read_model(model)
    data = np.arange(6, dtype=np.float32).reshape(1, 1, 1, 6)
    (expected,) = run_reference(model, {"x": data})
    assert loaded.outputs[0].shape == expected.shape == (1, 1, 1, 7)


def test_parts_of_a_split_may_be_omitted() -> None:
    """An empty name in any place; onnxruntime crashes. The other parts keep their places."""
    sizes = {"s": np.array([1, 2, 3])}
    nodes = [
        helper.make_node("Split", ["x", "s"], ["", "b", ""], axis=1),
        helper.make_node("Split", ["x", "s"], ["", "", "c"], axis=1),
        helper.make_node("Split", ["x", "s"], ["a", "", ""], axis=1),
        helper.make_node("Split", ["x"], ["", "d"], axis=1, num_outputs=2),
    ]
    names = ["a", "b", "c", "d"]
    model = make_model(nodes, {"x": (2, 6)}, names, sizes, opset=18)
    x = noise(2, 6)
    wanted = [x[:, :1], x[:, 1:3], x[:, 3:], x[:, 3:]]
    for actual, expected in zip(run(model, {"x": x}), wanted, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_edges_of_operators_agree_with_onnxruntime() -> None:
    """Split with empty parts, the lowest axis of OneHot, and images resized to one element."""
    one = np.array([1, 1, 1, 1], np.int64)
    constants = {
        "i": np.array([[0, 1], [2, 3]]), "d": np.array(4), "v": np.array([0, 1], np.float32),
        "parts": np.array([2, 0, 4]), "one": one,
    }  # fmt: skip
    pytorch = {"coordinate_transformation_mode": "pytorch_half_pixel", "mode": "linear"}
    corners = {"coordinate_transformation_mode": "align_corners", "mode": "linear"}
    nodes = [
        helper.make_node("Split", ["x", "parts"], ["a", "empty", "c"], axis=2),
        helper.make_node("Resize", ["x", "", "", "one"], ["p"], **pytorch),
        helper.make_node("Resize", ["x", "", "", "one"], ["q"], **corners),
        helper.make_node("OneHot", ["i", "d", "v"], ["h"], axis=-3),
        helper.make_node("Add", ["p", "h"], ["ph"]),
    ]
    model = make_model(nodes, {"x": (1, 1, 6, 6)}, ["a", "empty", "c", "ph", "q"], constants)
    x = noise(1, 1, 6, 6)
    expected = run_reference(model, {"x": x})
    found = tvmconv.build(model, threads=1).run(x)
    for index, value in enumerate(expected):
        np.testing.assert_allclose(np.asarray(found[index]), value, rtol=1e-6, atol=1e-6)
