"""Constants that the reader folds, and its bounds of memory and time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmconv
from examples.networks import NETWORKS
from tests.frontend.onnx_runner import make_model, noise, run_reference
from tests.networks.test_builders import SMALL
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model, to_relax
from tvmconv.frontend.graph import OnnxGraph

MIB = 2**20


def with_identities(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with an Identity between every initializer and its readers."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    nodes = list(graph.node)
    names = {tensor.name for tensor in graph.initializer}
    for node in nodes:
        for index, name in enumerate(node.input):
            if name in names:
                node.input[index] = f"{name}.same"
    del graph.node[:]
    for name in sorted(names):
        graph.node.append(helper.make_node("Identity", [name], [f"{name}.same"]))
    graph.node.extend(nodes)
    return changed


def structure(graph: OnnxGraph) -> list[tuple[object, ...]]:
    """Operators with their shapes and the bytes of their constants."""
    return [
        (
            node.op,
            sorted((key, str(value)) for key, value in node.attrs.items()),
            [graph.shape(name) for name in node.inputs if name],
            [graph.constants[name].tobytes() for name in node.inputs if name in graph.constants],
        )
        for node in graph.nodes
    ]


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        pytest.param(name, whole, marks=[pytest.mark.slow] * whole)
        for whole in (False, True)
        for name in NETWORKS
    ],
)
def test_identities_of_initializers_change_nothing(name: str, whole: bool) -> None:
    model = NETWORKS[name](**({} if whole else SMALL[name]))
    wrapped = with_identities(model)
    assert len(wrapped.graph.node) > len(model.graph.node)
    assert structure(read_model(wrapped).graph) == structure(read_model(model).graph)


@pytest.mark.parametrize("operator", ["Reshape", "Slice", "Expand"])
def test_operands_that_exporters_share_by_identity(operator: str) -> None:
    lists = {
        "Reshape": {"a": np.array([4, 6])},
        "Slice": {"a": np.array([0]), "b": np.array([1])},
        "Expand": {"a": np.array([3, 2, 3, 4])},
    }[operator]
    nodes = [helper.make_node("Identity", [name], [f"{name}1"]) for name in lists]
    nodes.append(helper.make_node(operator, ["x", *(f"{name}1" for name in lists)], ["y"]))
    graph = read_model(make_model(nodes, {"x": (1, 2, 3, 4)}, ["y"], lists)).graph
    assert [node.op for node in graph.nodes] == [operator]


def standardised(channels: int) -> onnx.ModelProto:
    """A convolution whose weight a BatchNormalization in training mode standardises."""
    constants = {
        "w": noise(channels, channels, 3, 3),
        "flat": np.array([1, channels, -1]),
        "shape": np.array([channels, channels, 3, 3]),
        "gain": np.ones(channels, np.float32),
        "zero": np.zeros(channels, np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["w", "flat"], ["rows"]),
        helper.make_node(
            "BatchNormalization",
            ["rows", "gain", "zero", "zero", "gain"],
            ["standard", "mean", "variance"],
            training_mode=1,
        ),
        helper.make_node("Reshape", ["standard", "shape"], ["weight"]),
        helper.make_node("Conv", ["x", "weight"], ["y"], "conv1"),
    ]
    return make_model(nodes, {"x": (1, channels, 8, 8)}, ["y"], constants)


# 9, and 38 MB of weights: each result alone was more than the former limit
@pytest.mark.parametrize("channels", [16, 512, 1024])
def test_standardized_weights_of_any_size_fold(channels: int) -> None:
    graph = read_model(standardised(channels)).graph
    assert [node.op for node in graph.nodes] == ["Conv"]
    rows = graph.constants[graph.nodes[0].inputs[1]].reshape(channels, -1).astype(np.float64)
    np.testing.assert_allclose(rows.mean(1), 0, atol=1e-5)
    np.testing.assert_allclose(rows.std(1), 1, rtol=1e-4)


def test_a_layer_with_standardized_weights_is_scheduled() -> None:
    model = standardised(16)
    x = noise(1, 16, 8, 8)
    compiled = tvmconv.build(model, "x86-64-v3", threads=1, log="none")
    assert [decision.layer for decision in compiled.decisions] == ["conv1"]
    # torch writes batch norm in training mode in this form
    wanted = run_reference(model, {"x": x})[0]
    np.testing.assert_allclose(compiled.run({"x": x})["y"], wanted, rtol=1e-4, atol=1e-4)


def fill(*shape: int) -> dict[str, np.ndarray]:
    return {"shape": np.array(shape)}


def chain(length: int) -> onnx.ModelProto:
    """Constants of 40 MB, each computed from the one before."""
    nodes = [helper.make_node("ConstantOfShape", ["shape"], ["c0"], "fill")]
    nodes += [helper.make_node("Neg", [f"c{i}"], [f"c{i + 1}"]) for i in range(length)]
    nodes.append(helper.make_node("ReduceMax", [f"c{length}"], ["top"], keepdims=0))
    nodes.append(helper.make_node("Add", ["x", "top"], ["y"]))
    return make_model(nodes, {"x": (1,)}, ["y"], fill(10, MIB))


def test_used_constants_are_released() -> None:
    tracemalloc.start()
    graph = read_model(chain(20), fold_budget=100 * MIB).graph
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [node.op for node in graph.nodes] == ["Add"]
    assert peak < 200 * MIB


BOMBS = {
    "ConstantOfShape": helper.make_node("ConstantOfShape", ["shape"], ["y"], "bomb"),
    "Expand": helper.make_node("Expand", ["one", "shape"], ["y"], "bomb"),
    "Tile": helper.make_node("Tile", ["two", "shape"], ["y"], "bomb"),
    "OneHot": helper.make_node("OneHot", ["places", "depth", "values"], ["y"], "bomb"),
    "Range": helper.make_node("Range", ["start", "end", "step"], ["y"], "bomb"),
    "Pad": helper.make_node("Pad", ["two", "pads"], ["y"], "bomb"),
    "Resize": helper.make_node("Resize", ["four", "", "", "sizes"], ["y"], "bomb"),
    "Concat": helper.make_node("Concat", ["wide"] * 100, ["y"], "bomb", axis=0),
    "EyeLike": helper.make_node("EyeLike", ["square"], ["y"], "bomb"),
}


@pytest.mark.parametrize("operator", BOMBS)
def test_a_constant_beyond_the_budget_is_refused_before_it_is_computed(operator: str) -> None:
    constants = {
        **fill(2**14, 2**13),
        "one": np.ones(1, np.float32),
        "two": np.ones((2, 2), np.float32),
        "four": np.ones((1, 1, 2, 2), np.float32),
        "places": np.zeros(2**13, np.int64),
        "depth": np.array(2**14),
        "values": np.array([0, 1], np.float32),
        "start": np.array(0.0, np.float32),
        "end": np.array(1e9, np.float32),
        "step": np.array(1.0, np.float32),
        "pads": np.array([2**13, 2**13, 2**13, 2**13]),
        "sizes": np.array([1, 1, 2**14, 2**13]),
        "wide": np.ones((256, 4096), np.float32),
        "square": np.ones((2, 2), np.float32),
    }
    nodes = [BOMBS[operator]]
    if operator == "EyeLike":
        constants["large"] = np.array([2**14, 2**13])
        nodes = [helper.make_node("ConstantOfShape", ["large"], ["square"], "bomb"), *nodes]
        del constants["square"]
    used = {name for node in nodes for name in node.input}
    constants = {name: value for name, value in constants.items() if name in used}
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"'bomb' .*fold_budget"):
        read_model(make_model(nodes, {}, ["y"], constants))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * MIB


TABLES = {
    "edge": helper.make_node("Pad", ["x", "widths"], ["y"], "table", mode="edge"),
    "nearest": helper.make_node("Resize", ["x", "", "scales"], ["y"], "table"),
    "linear": helper.make_node("Resize", ["x", "", "scales"], ["y"], "table", mode="linear"),
    "cubic": helper.make_node("Resize", ["x", "", "scales"], ["y"], "table", mode="cubic"),
    "dilated": helper.make_node(
        "ConvTranspose", ["x", "w"], ["y"], "table", dilations=[8001], pads=[8000, 0]
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_that_operators_need_count(name: str) -> None:
    """Of 8001 rows or more, 16 bytes each or more, where the budget is 32000 bytes."""
    node = TABLES[name]
    given = {
        "widths": np.array([0, 0, 0, 0, 0, 8001]),
        "scales": np.array([1, 1, 2000.5], np.float32),
        "w": noise(1, 1, 2),
    }
    constants = {key: value for key, value in given.items() if key in node.input}
    model = make_model([node], {"x": (1, 1, 4)}, ["y"], constants)
    with pytest.raises(ModelError, match=r"'table' .* bytes of tables.*fold_budget"):
        to_relax(read_model(model, fold_budget=32000))
    to_relax(read_model(model, fold_budget=8005 * 64))


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_axes_that_stay_need_no_tables(mode: str) -> None:
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], "resize1", mode=mode)
    scales = np.array([1, 1, 3, 1], np.float32)
    small, large = (
        make_model([node], {"x": (1, 1, 4, width)}, ["y"], {"scales": scales})
        for width in (4, 2**20)
    )
    # once before, for what is imported on the way
    to_relax(read_model(small))
    tracemalloc.start()
    to_relax(read_model(large))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB


def test_the_budget_grows_with_the_model_and_can_be_given() -> None:
    node = helper.make_node("ConstantOfShape", ["shape"], ["c"], "fill")
    add = helper.make_node("Add", ["x", "c"], ["y"])
    model = make_model([node, add], {"x": (1,)}, ["y"], fill(16, MIB))
    assert len(read_model(model).graph.nodes) == 1
    with pytest.raises(ModelError, match="'fill'"):
        read_model(model, fold_budget=63 * MIB)
    larger = make_model([node, add], {"x": (1,)}, ["y"], fill(65, MIB))
    with pytest.raises(ModelError, match="'fill'"):
        read_model(larger)
    assert len(read_model(larger, fold_budget=260 * MIB).graph.nodes) == 1


def test_constants_that_take_minutes_are_left_to_the_model() -> None:
    x, grid = noise(1, 1, 64, 64), np.zeros((1, 512, 1024, 2), np.float32)
    node = helper.make_node("GridSample", ["a", "grid"], ["y"], "sample")
    graph = read_model(make_model([node], {}, ["y"], {"a": x, "grid": grid})).graph
    assert [node.op for node in graph.nodes] == ["GridSample"]
    many = np.zeros((12 * MIB, 1), np.int64)
    node = helper.make_node("GatherND", ["a", "many"], ["y"], "gather")
    model = make_model([node], {}, ["y"], {"a": np.zeros(4, np.float32), "many": many})
    graph = read_model(model, fold_budget=256 * MIB).graph
    assert [node.op for node in graph.nodes] == ["GatherND"]


def test_the_mask_of_a_dropout_counts() -> None:
    node = helper.make_node("Dropout", ["x"], ["y", "mask"], "drop")
    cast = helper.make_node("Cast", ["mask"], ["m"], to=1)
    model = make_model([node, cast], {"x": (300, MIB)}, ["y", "m"])
    with pytest.raises(ModelError, match=r"'drop'.*fold_budget"):
        read_model(model)


@pytest.mark.parametrize(("kept", "fits"), [(False, True), (True, False)])
def test_activations_that_no_machine_holds_are_refused(kept: bool, fits: bool) -> None:
    """Twenty tensors of 4 GiB: one after the other, or all read at the end."""
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"], f"neg{i}") for i in range(20)]
    last = [f"v{i}" for i in range(1, 21)] if kept else ["v20"]
    nodes.append(helper.make_node("Max", last, ["y"], "join"))
    model = make_model(nodes, {"v0": (2**15, 2**15)}, ["y"])
    if fits:
        assert len(read_model(model).graph.nodes) == 21
    else:
        with pytest.raises(ModelError, match=r"'neg\d+' .*alive"):
            read_model(model)


def test_weights_may_be_fills() -> None:
    """The onnx package writes weights as fills; other constants have a smaller limit."""
    fill = helper.make_node("ConstantOfShape", ["s"], ["w"])
    gemm = helper.make_node("MatMul", ["x", "w"], ["y"])
    shape = {"s": np.array([8192, 9000])}
    loaded = read_model(make_model([fill, gemm], {"x": (1, 8192)}, ["y"], shape))
    assert loaded.graph.constants["w"].shape == (8192, 9000)
    add = helper.make_node("Add", ["x", "w"], ["y"])
    with pytest.raises(ModelError, match="fold_budget"):
        read_model(make_model([fill, add], {"x": (1, 9000)}, ["y"], shape))
    with pytest.raises(ModelError, match="fold_budget"):
        read_model(make_model([fill, gemm], {"x": (1, 8192)}, ["y"], shape), fold_budget=2**20)
