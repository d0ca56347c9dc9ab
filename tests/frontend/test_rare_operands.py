"""Operands that operators' definitions allow, and few models have."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.frontend.onnx_runner import Arrays, freeze, make_model, noise, run, run_reference
from tests.fuzz.runtimes import by_node


def _agree(model: onnx.ModelProto, feeds: Arrays) -> None:
    """A model with the types of these inputs has the results of other runtimes."""
    for info in model.graph.input:
        code = helper.np_dtype_to_tensor_dtype(feeds[info.name].dtype)
        info.type.tensor_type.elem_type = code
    for info in model.graph.output:
        # onnx infers them
        info.type.tensor_type.elem_type = onnx.TensorProto.UNDEFINED
    typed = onnx.shape_inference.infer_shapes(model)
    expected = by_node(typed.SerializeToString(), feeds)
    for mine, theirs in zip(run(typed, feeds), expected, strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, 1e-5, 1e-6)


def test_statistics_of_float64_have_the_stash_type() -> None:
    node = helper.make_node("LayerNormalization", ["x", "s"], ["y", "mean", "inverse"])
    model = make_model([node], {"x": (3, 7)}, node.output, {"s": np.ones(7)})
    _agree(model, {"x": noise(3, 7).astype(np.float64)})


def test_erf_of_integers() -> None:
    types = (np.int8, np.uint8, np.int32, np.uint64)
    feeds = {f"x{i}": np.arange(-7, 8).astype(t) for i, t in enumerate(types)}
    nodes = [helper.make_node("Erf", [name], [f"{name}.y"]) for name in feeds]
    outputs = [f"{name}.y" for name in feeds]
    _agree(make_model(nodes, dict.fromkeys(feeds, (15,)), outputs, opset=9), feeds)


def test_numbers_without_axes() -> None:
    nodes = [helper.make_node("Transpose", ["x"], ["t"]), helper.make_node("ArgMax", ["x"], ["i"])]
    _agree(make_model(nodes, {"x": ()}, ["t", "i"], opset=10), {"x": noise()})


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_of_nothing_are_their_bias(rank: int) -> None:
    """An empty slice, as of pruned networks."""
    nodes = [
        helper.make_node("Slice", ["x", "one", "one", "one"], ["nothing"]),
        helper.make_node("Conv", ["nothing", "w", "b"], ["y"], strides=[2] * rank),
        helper.make_node("ConvTranspose", ["nothing", "v"], ["z"]),
        helper.make_node("Transpose", ["nothing"], ["plane"], perm=[0, *range(2, rank + 2), 1]),
        helper.make_node("Conv", ["plane", "u", "b"], ["p"], pads=[1] * (2 * rank)),
    ]
    kernel = (3,) * rank
    constants = {
        "one": np.array([1]),
        "w": np.zeros((5, 0, *kernel), np.float32),
        "v": np.zeros((0, 2, *kernel), np.float32),
        "u": np.ones((5, 6, *[3] * (rank - 1), 2), np.float32),
        "b": noise(5),
    }
    model = make_model(nodes, {"x": (2, 4, *[6] * rank)}, ["y", "z", "p"], constants)
    y, z, padded = run(model, {"x": noise(2, 4, *[6] * rank)})
    bias = constants["b"].reshape(-1, *[1] * rank)
    np.testing.assert_array_equal(y, np.broadcast_to(bias, (2, 5, *[2] * rank)))
    np.testing.assert_array_equal(padded, np.broadcast_to(bias, (2, 5, *[6] * (rank - 1), 1)))
    np.testing.assert_array_equal(z, np.zeros((2, 2, *[8] * rank), np.float32))


@pytest.mark.parametrize("opset", [8, 11, 13])
def test_axes_of_constants_in_any_order(opset: int) -> None:
    axes = (3, 1) if opset < 11 else (3, -3)
    given = {"axes": np.array(axes)} if opset > 12 else {}
    node = helper.make_node("Unsqueeze", ["c", *given], ["y"], **({} if given else {"axes": axes}))
    c = noise(3, 5)
    (y,) = run(make_model([node], {}, ["y"], {"c": c, **given}, opset=opset), {})
    np.testing.assert_array_equal(y, np.expand_dims(c, axes))


def test_attention_to_values_of_another_type() -> None:
    node = helper.make_node("Attention", ["q", "k", "v"], ["y"])
    shapes = {"q": (1, 2, 3, 4), "k": (1, 2, 5, 4), "v": (1, 2, 5, 4)}
    feeds = {name: noise(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    _agree(make_model([node], shapes, ["y"], opset=23), {**feeds, "v": feeds["v"].astype(float)})


def test_samples_of_planes_of_one_element() -> None:
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], padding_mode="border")
    shapes = {"x": (2, 5, 1, 1), "grid": (2, 4, 9, 2)}
    feeds = {"x": noise(2, 5, 1, 1), "grid": noise(2, 4, 9, 2, seed=1)}
    _agree(make_model([node], shapes, ["y"]), feeds)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_samples_of_constants_are_the_samples_of_inputs(mode: str) -> None:
    """onnx.reference has other cubic samples at the border."""
    node = helper.make_node("GridSample", ["x", "grid"], ["y"], mode=mode, padding_mode="border",
                            align_corners=0)  # fmt: skip
    x, grid = noise(1, 2, 5, 4), noise(1, 3, 4, 2, seed=1)
    model = make_model([node], {"x": x.shape, "grid": grid.shape}, ["y"], opset=20)
    expected = run_reference(model, {"x": x, "grid": grid})
    frozen, _ = freeze(model, [x, grid], 0)
    np.testing.assert_allclose(run(frozen, {})[0], expected[0], 1e-5, 1e-5)
