"""TopK against onnxruntime; against numpy's stable sort where NaN is among the elements."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from tests.frontend.onnx_runner import make_model, run, run_reference, whole_build
from tests.operators.harness import HOST, Built, normal
from tvmconv.operators.best_of_lanes import best_of_columns, best_of_short_rows
from tvmconv.operators.sort import top_k


def compiled(x: np.ndarray, k: int, axis: int, largest: bool) -> list[np.ndarray]:
    return Built(lambda data: top_k(data, k, axis, largest), [x], HOST)()


def by_definition(x: np.ndarray, k: int, axis: int, largest: bool) -> list[np.ndarray]:
    """Numpy sorts NaN after all numbers; reversed twice, equal elements keep their order."""
    if largest:
        order = x.shape[axis] - 1 - np.argsort(np.flip(x, axis), axis, kind="stable")
        order = np.flip(order, axis)
    else:
        order = np.argsort(x, axis, kind="stable")
    order = np.take(order, range(k), axis)
    return [np.take_along_axis(x, order, axis), order]


def check(x: np.ndarray, k: int, axis: int, largest: bool) -> None:
    for actual, wanted in zip(
        compiled(x, k, axis, largest), by_definition(x, k, axis, largest), strict=True
    ):
        assert actual.dtype == wanted.dtype
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [1, -1])
def test_agrees_with_onnxruntime(axis, largest):
    x = np.round(normal(6, 33, 5) * 3)  # many ties
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=axis, largest=largest)
    model = make_model([node], {"x": x.shape}, ["y", "i"], {"k": np.array([4])})
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    for actual, wanted in zip(
        compiled(x, 4, axis, bool(largest)), run_reference(model, {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(actual, wanted, strict=True)


def test_is_built_as_part_of_a_model():
    nodes = [
        helper.make_node("CumSum", ["x", "axis"], ["t"]),
        helper.make_node("CumSum", ["t", "last"], ["s"], reverse=1),
        helper.make_node("TopK", ["s", "k"], ["y", "i"], axis=1),
    ]
    x = np.round(normal(3, 17) * 3)
    constants = {"axis": np.array(0), "last": np.array(-1), "k": np.array([4])}
    model = make_model(nodes, {"x": x.shape}, ["y", "i"], constants)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    for actual, wanted in zip(
        run(model, {"x": x}, whole_build), run_reference(model, {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(actual, wanted, strict=True)


def test_sums_down_columns_that_are_and_are_not_whole_vectors():
    widths, axis = (1, 2, 4, 5, 8, 16, 17, 100, 128, 131), {"axis": np.array(0)}
    x = {f"x{width}": np.round(normal(25, width) * 4) for width in widths}
    nodes, wanted = [], []
    for name, value in x.items():
        nodes.append(helper.make_node("CumSum", [name, "axis"], [f"{name}_s"], exclusive=1))
        nodes.append(helper.make_node("CumSum", [name, "axis"], [f"{name}_r"], reverse=1))
        wanted += [np.cumsum(value, 0) - value, np.cumsum(value[::-1], 0)[::-1]]
    shapes = {name: value.shape for name, value in x.items()}
    model = make_model(nodes, shapes, [node.output[0] for node in nodes], axis)
    for actual, expected in zip(run(model, x, whole_build), wanted, strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("opset", "attributes"), [(9, {"k": 4}), (10, {}), (11, {"sorted": 0, "largest": 0})]
)
def test_operator_sets_say_in_their_own_way_how_many_and_which(opset, attributes):
    x = np.random.default_rng(0).permutation(51).reshape(3, 17).astype("float32")
    inputs, constants = (["x"], {}) if "k" in attributes else (["x", "k"], {"k": np.array([4])})
    node = helper.make_node("TopK", inputs, ["y", "i"], axis=1, **attributes)
    model = make_model([node], {"x": x.shape}, ["y", "i"], constants, opset=opset)
    model.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    wanted = by_definition(x, 4, 1, attributes.get("largest", 1))
    for actual, expected in zip(run(model, {"x": x}), wanted, strict=True):
        np.testing.assert_array_equal(actual, expected, strict=True)


@settings(max_examples=12)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    axis=st.integers(0, 2),
    largest=st.booleans(),
    dtype=st.sampled_from(["float32", "float64", "float16", "int64", "int8", "uint8", "uint64"]),
    data=st.data(),
)
def test_ties_and_values_that_are_not_numbers(shape, axis, largest, dtype, data):
    axis %= len(shape)
    k = data.draw(st.integers(1, shape[axis]))
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = generator.integers(0, 5, shape).astype(dtype)
    if dtype.startswith("float"):
        special = generator.choice([np.nan, np.inf, -np.inf, -0.0], shape).astype(dtype)
        x = np.where(generator.random(shape) < 0.4, special, x)
    check(x, k, axis, largest)


@pytest.mark.parametrize("size", [1, 2, 31, 32, 33, 1000, 8400])
def test_long_axes(size):
    check(np.round(normal(2, size) * 50), min(size, 100), 1, True)


@pytest.mark.parametrize("size", [15, 16, 33, 97, 1000])
@pytest.mark.parametrize("k", [1, 5, 15])
def test_few_of_short_and_long_rows(size, k):
    check(np.round(normal(3, size) * 9), k, 1, k != 5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "int64"])
@pytest.mark.parametrize("size", [98, 127, 500, 5000])
def test_few_of_rows_whose_best_elements_are_neighbors_or_in_one_part(size, dtype):
    """A key that enough elements reach is low where one part has all of the best, or all tie."""
    x = (normal(5, size) * 20).astype(dtype)
    x[1, ::32] = 100
    x[2, 30:60] = 90
    x[3] = 3
    x[3, size // 2] = 4
    if dtype.startswith("float"):
        x[4, ::2], x[4, 1::4] = np.nan, -0.0
        x[0, 5], x[0, 77] = np.inf, -np.inf
    for k, largest in ((2, True), (16, False), (30, True), (30, False), (50, True), (50, False)):
        check(x, k, 1, largest)


@pytest.mark.parametrize(
    "size, dtype",
    [
        (17, "uint8"),
        (63, "float32"),
        (65, "int64"),
        (100, "float32"),
        (128, "int8"),
        (129, "uint8"),
    ],
)
def test_whole_rows_with_ties(size, dtype):
    """Up to a length, ranks are counted for groups of vectors, and in the others a sort follows."""
    x = (normal(3, size) * 9).round().astype(dtype)
    x[1] = 7
    check(x, size, 1, True)
    check(x, size - 9, 1, False)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float64"])
@pytest.mark.parametrize("k", [3, 10, 40])
def test_rows_of_the_lowest_element(dtype, k):
    """Every element ties with what the rows are filled up with."""
    x = np.full((2, 150), np.finfo(dtype).min if dtype == "float64" else np.iinfo(dtype).min, dtype)
    x[:, 130:] += 1
    check(x, k, 1, True)


@pytest.mark.parametrize(
    ("dtype", "k"), [("float32", 700), ("float64", 64), ("int8", 65), ("uint16", 20), ("int64", 65)]
)
def test_selections_of_every_width(dtype, k):
    """Some are ranked, others sorted; a long row is collected in several parts, with ties."""
    x = (normal(2, 3000) * 40).astype(dtype)
    if dtype.startswith("float"):
        x[0, ::7] = np.where(np.arange(429) % 2, np.nan, -np.nan)
        x[1, ::7] = np.where(np.arange(429) % 2, 0.0, -0.0)
    check(x, k, 1, True)
    check(x, k, 1, False)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("k", [10, 70])
def test_sorted_rows(order, k):
    """Each element passes, or none after the first ones."""
    check(np.sort(normal(2, 700), 1)[:, ::order].copy(), k, 1, True)


_EVERY = ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "uint64"]


def mixed(dtype: str, *shape: int) -> np.ndarray:
    """Many ties, the lowest and the highest value, NaN, infinities and both zeros."""
    generator = np.random.default_rng(len(shape))
    x = generator.integers(0, 5, shape).astype(dtype)
    if dtype.startswith("float"):
        special = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0], dtype)
    else:
        special = np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
    return np.where(generator.random(shape) < 0.4, generator.choice(special, shape), x)


@pytest.mark.parametrize("dtype", _EVERY)
def test_columns_and_short_rows_of_every_type(dtype):
    """The last vector of columns overlaps another one, and the last rows fill no vector."""
    columns, rows = mixed(dtype, 3, 19, 277), mixed(dtype, 37, 23)
    # all elements are equal to what empty ranks hold
    columns[0] = columns.min() if dtype[0] != "f" else -np.inf
    rows[:9] = np.nan if dtype[0] == "f" else rows.min()
    for k, largest in ((1, True), (3, False), (8, True)):
        for form, x in ((best_of_columns, columns), (best_of_short_rows, rows)):
            built = Built(lambda data, k=k, by=form, up=largest: by(data, k, up), [x], HOST)
            for actual, wanted in zip(built(), by_definition(x, k, 1, largest), strict=True):
                np.testing.assert_array_equal(actual, wanted, strict=True)


@pytest.mark.parametrize(("dtype", "size"), [("float32", 8400), ("int8", 1000), ("int64", 9000)])
@pytest.mark.parametrize("k", [100, 140])
def test_a_key_is_reached_by_many_elements(dtype, size, k):
    """The maxima of parts are selected by bits; rows are stored as keys, or read twice."""
    x = (normal(4, size) * 20).astype(dtype)
    x[1] = 3
    x[2] = np.sort(x[2])
    # all of the best are in one part
    x[3, :: 256 if k == 100 else 512] = 100
    for largest in (True, False):
        check(x, k, 1, largest)
