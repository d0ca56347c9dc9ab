"""BatchNormalization with the statistics of its batch, as in training."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmconv
from tests.frontend.batch_models import made
from tests.frontend.onnx_runner import make_model, run_reference
from tvmconv.core.errors import ModelError
from tvmconv.frontend import read_model

SHAPES = [(6, 5), (3, 4, 7), (2, 19, 5, 6), (2, 3, 2, 4, 5)]
MORE_SHAPES = [(70, 33), (1, 3, 8, 9), (4, 8, 1, 1), (1, 5), (3, 16, 12, 17), (5, 2, 600)]
# codes of types, and the tolerance of values of about 1
TYPES = {
    "float32": (TensorProto.FLOAT, 5e-6),
    "float64": (TensorProto.DOUBLE, 1e-12),
    "float16": (TensorProto.FLOAT16, 2e-3),
}
MOMENTUM, EPSILON = 0.75, 2.0**-10


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) + 3).astype(dtype)


def expected(x: np.ndarray, parameters: list[np.ndarray]) -> list[np.ndarray]:
    """Result, running mean and variance, and the batch's own, in float64."""
    wide, axes = x.astype(np.float64), tuple(axis for axis in range(x.ndim) if axis != 1)
    scale, shift, mean, variance = (value.astype(np.float64) for value in parameters)
    own, spread = wide.mean(axes), wide.var(axes)
    column = (-1, *(1,) * (x.ndim - 2))
    normal = (wide - own.reshape(column)) / np.sqrt(spread + EPSILON).reshape(column)
    return [
        normal * scale.reshape(column) + shift.reshape(column),
        mean * MOMENTUM + own * (1 - MOMENTUM),
        variance * MOMENTUM + spread * (1 - MOMENTUM),
        own,
        spread,
    ]


def training(
    cases: list[tuple[tuple[int, ...], str, str]], opset: int = 15, results: int = 3
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """One model of a node for each shape, type and type of the statistics; feeds; its results."""
    nodes, inputs, outputs, feeds, wanted = [], [], [], {}, {}
    attributes: dict[str, Any] = {"momentum": MOMENTUM, "epsilon": EPSILON}
    attributes |= {"training_mode": 1} if opset >= 14 else {}
    for number, (shape, dtype, statistics) in enumerate(cases):
        names = [f"{name}{number}" for name in "xsbmv"]
        made_names = [f"{name}{number}" for name in ("y", "rm", "rv", "om", "ov")][:results]
        channels = (shape[1],)
        x = values(shape, dtype)
        parameters = [values(channels, statistics, seed) for seed in range(1, 5)]
        types = [dtype, *[statistics] * 4]
        for name, value, kind in zip(names, [x, *parameters], types, strict=True):
            inputs.append(helper.make_tensor_value_info(name, TYPES[kind][0], value.shape))
            feeds[name] = value
        for name, kind in zip(made_names, types, strict=False):
            outputs.append(helper.make_tensor_value_info(name, TYPES[kind][0], None))
        nodes.append(helper.make_node("BatchNormalization", names, made_names, **attributes))
        wanted |= dict(zip(made_names, expected(x, parameters), strict=False))
    graph = helper.make_graph(nodes, "training", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds, wanted


def check(model: onnx.ModelProto, feeds: Any, wanted: Any) -> None:
    results = tvmconv.build(model, threads=1, log="none").run(feeds)
    assert set(results.keys()) == set(wanted)
    for name, value in results.items():
        # sums have the type of the data
        data = feeds[f"x{name.lstrip('yrmov')}"]
        tolerance = max(TYPES[str(array.dtype)][1] for array in (value, data))
        tolerance *= 1 + np.abs(wanted[name])
        error = np.abs(value.astype(np.float64) - wanted[name])
        assert (error <= tolerance).all(), (name, value.dtype, error.max())


def test_all_ranks_and_types() -> None:
    cases = [(shape, "float32", "float32") for shape in SHAPES]
    cases += [((2, 3, 4, 5), "float64", "float64"), ((2, 3, 4, 5), "float16", "float32")]
    check(*training(cases))


@pytest.mark.slow
def test_more_shapes_and_types() -> None:
    cases = [(shape, "float32", "float32") for shape in MORE_SHAPES]
    cases += [((6, 5), "float64", "float64"), ((2, 3, 4, 5), "float16", "float16")]
    cases += [((3, 4, 7), "float32", "float64")]
    check(*training(cases))


@pytest.mark.parametrize(
    ("opset", "results"), [(9, 5), *(pytest.param(n, 3, marks=pytest.mark.slow) for n in (14, 15))]
)
def test_older_operator_sets(opset: int, results: int) -> None:
    """Before set 14, the batch's own statistics are results too."""
    model, feeds, wanted = training([((2, 3, 4, 5), "float32", "float32")], opset, results)
    check(model, feeds, wanted)
    # in place of the variance, onnxruntime saves 1 / sqrt(variance + epsilon)
    known = run_reference(model, feeds)[:4]
    for value, name in zip(known, wanted, strict=False):
        np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("opset", "names"),
    [
        (15, ["y0", "rm0", ""]),
        (15, ["y0", "", "rv0"]),
        (15, ["y0", "", ""]),
        (9, ["y0", "rm0", "rv0", "", ""]),
    ],
)
def test_statistics_without_a_name(opset: int, names: list[str]) -> None:
    """onnxruntime ends the process here. The checker counts such results too."""
    model, feeds, wanted = training([((4, 5, 3), "float32", "float32")], opset, len(names))
    model.graph.node[0].output[:] = names
    kept = [info for info in model.graph.output if info.name in names]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    written = read_model(model).proto
    onnx.checker.check_model(written, full_check=True)
    assert list(written.graph.node[0].output) == names
    if names[1:] == ["", "rv0"]:
        check(written, feeds, {name: wanted[name] for name in ("y0", "rv0")})


@pytest.mark.slow
def test_values_far_from_zero_keep_their_variance() -> None:
    shape = (4, 16, 9, 11)
    x = (np.random.default_rng(0).standard_normal(shape) + 1e4).astype(np.float32)
    ones = [np.full(16, number, np.float32) for number in (1, 0, 0, 0)]
    node = helper.make_node(
        "BatchNormalization", ["x", *"sbmv"], ["y", "mean", "variance"], training_mode=1
    )
    model = make_model(
        [node], {"x": shape}, ["y", "variance"], dict(zip("sbmv", ones, strict=True))
    )
    results = tvmconv.build(model, threads=1, log="none").run({"x": x})
    wide = x.astype(np.float64)
    spread = wide.var((0, 2, 3))
    np.testing.assert_allclose(results["variance"], 0.1 * spread, rtol=1e-5)
    normal = (wide - wide.mean((0, 2, 3), keepdims=True)) / np.sqrt(spread[:, None, None])
    np.testing.assert_allclose(results["y"], normal, atol=2e-3)


def test_constant_data_keep_the_types_of_statistics() -> None:
    """Folded at build time."""
    nodes = [
        helper.make_node(
            "BatchNormalization", ["c", *"sbmv"], ["n", "rm", "rv"], "norm1", training_mode=1
        ),
        helper.make_node("Add", ["x", "rm"], ["y"]),
    ]
    data, double = values((6, 5), "float32"), values((5,), "float64")
    constants = {"c": data, "s": double, "b": double, "m": double, "v": double}
    graph = helper.make_graph(
        nodes,
        "constant",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, (5,))],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 15)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    result = tvmconv.build(model, threads=1, log="none").run({"x": np.zeros(5)})["y"]
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, 0.9 * double + 0.1 * data.mean(0), rtol=1e-6)


def test_images_of_any_batch_are_not_separate() -> None:
    node = helper.make_node(
        "BatchNormalization", ["x", *"sbmv"], ["y", "rm", "rv"], "norm1", training_mode=1
    )
    weights = {name: np.ones(3, np.float32) for name in "sbmv"}
    proto = made([node], {"x": ["N", 3, 4, 4]}, weights)
    with pytest.raises(ModelError, match="norm1"):
        tvmconv.build(proto, batch="any")
