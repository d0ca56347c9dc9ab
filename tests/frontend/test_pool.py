"""Random pooling windows against their definition, onnxruntime and onnx.reference.

Many poolings of one input make one model, so that a sweep is few builds.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, RuntimeException

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run, run_reference, whole_build

SIZES = {1: [(10,), (7,)], 2: [(6, 6), (7, 5)], 3: [(5, 4, 6)]}
Attributes = dict[str, Any]


def cases(size: tuple[int, ...], count: int, seed: int) -> Iterator[tuple[str, Attributes]]:
    """Pooling operators on an image of this size, none of whose windows is larger than it."""
    rng, rank = random.Random(seed), len(size)
    while count:
        operator = rng.choice(["MaxPool", "AveragePool", "LpPool"])
        kernel = [rng.randint(1, 3) for _ in size]
        attributes: Attributes = {
            "kernel_shape": kernel,
            "strides": [rng.randint(1, 3) for _ in size],
            "dilations": rng.choice([[1] * rank, [rng.randint(1, 2) for _ in size]]),
            "ceil_mode": rng.randint(0, 1),
        }
        mode = rng.choice(["pads", "pads", "", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if mode == "pads":
            attributes["pads"] = [rng.randint(0, k - 1) for k in kernel + kernel]
        elif mode:
            attributes["auto_pad"] = mode
        if operator == "AveragePool":
            attributes["count_include_pad"] = rng.randint(0, 1)
        if operator == "LpPool":
            attributes["p"] = rng.randint(1, 3)
        if all(room >= 0 for room in geometry(size, attributes)[1]):
            count -= 1
            yield operator, attributes


def geometry(size: tuple[int, ...], attributes: Attributes) -> tuple[list[int], list[int], Any]:
    """Output extents, room for the first window to move, and (begin, end) paddings."""
    rank = len(size)
    mode, ceil = attributes.get("auto_pad", ""), attributes["ceil_mode"]
    pads = attributes.get("pads", [0] * 2 * rank)
    output, rooms, padding = [], [], []
    for i, n in enumerate(size):
        stride = attributes["strides"][i]
        span = (attributes["kernel_shape"][i] - 1) * attributes["dilations"][i] + 1
        begin, end = pads[i], pads[i + rank]
        if mode.startswith("SAME"):
            total = max((-(-n // stride) - 1) * stride + span - n, 0)
            begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
            end = total - begin
        room = n + begin + end - span
        count = (-(-room // stride) if ceil else room // stride) + 1
        if ceil and (count - 1) * stride >= n + begin:
            count -= 1
        output.append(count)
        rooms.append(room)
        padding.append((begin, end))
    return output, rooms, padding


def definition(x: np.ndarray, operator: str, attributes: Attributes) -> np.ndarray:
    """The operator in float64, window by window and tap by tap."""
    size = x.shape[2:]
    output, _, padding = geometry(size, attributes)
    result = np.zeros((*x.shape[:2], *output))
    for place in itertools.product(*map(range, output)):
        values, taps = [], 0
        for tap in itertools.product(*map(range, attributes["kernel_shape"])):
            steps = zip(place, tap, attributes["strides"], attributes["dilations"], strict=True)
            at = [o * s + t * d for o, t, s, d in steps]
            at = [a - begin for a, (begin, _) in zip(at, padding, strict=True)]
            inside = all(0 <= a < n for a, n in zip(at, size, strict=True))
            ends = [n + end for n, (_, end) in zip(size, padding, strict=True)]
            if inside:
                values.append(x[(..., *at)].astype(np.float64))
            within = all(a < end for a, end in zip(at, ends, strict=True))
            taps += within if attributes.get("count_include_pad") else inside
        result[(..., *place)] = _pooled(np.array(values), taps, operator, attributes.get("p", 2))
    return result


def _pooled(values: np.ndarray, taps: int, operator: str, p: int) -> np.ndarray:
    if operator == "MaxPool":
        return values.max(axis=0)
    if operator == "AveragePool":
        return values.sum(axis=0) / taps
    return (np.abs(values) ** p).sum(axis=0) ** (1 / p)


def sweep(size: tuple[int, ...], count: int, seed: int) -> None:
    """One model of many poolings of one input against the definition."""
    x = noise(1, 3, *size, seed=seed)
    chosen = list(cases(size, count, seed))
    names = [f"y{i}" for i in range(len(chosen))]
    nodes = [
        helper.make_node(operator, ["x"], [name], name, **attributes)
        for name, (operator, attributes) in zip(names, chosen, strict=True)
    ]
    model = make_model(nodes, {"x": x.shape}, names, opset=22)
    for actual, case in zip(run(model, {"x": x}, whole_build), chosen, strict=True):
        expected = definition(x, *case)
        assert expected.shape == actual.shape, case
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6, err_msg=str(case))


@pytest.mark.parametrize("size", [(7,), (7, 5)], ids=str)
def test_any_window(size: tuple[int, ...]) -> None:
    sweep(size, 16, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("size", [size for sizes in SIZES.values() for size in sizes], ids=str)
@pytest.mark.parametrize("seed", range(1, 5))
def test_any_window_thoroughly(size: tuple[int, ...], seed: int) -> None:
    sweep(size, 100, seed)


def test_volumes_are_pooled_first_along_the_axis_that_leaves_less() -> None:
    x = noise(1, 2, 9, 4, 7)
    windows = [([8, 1, 5], [8, 2, 1]), ([2, 3, 5], [1, 3, 4]), ([5, 2, 2], [4, 1, 1])]
    chosen = [
        (operator, {"kernel_shape": kernel, "strides": strides, "pads": [1, 0, 1, 1, 0, 0]})
        for kernel, strides in windows
        for operator in ("MaxPool", "AveragePool", "LpPool")
    ]
    names = [f"y{i}" for i in range(len(chosen))]
    nodes = [
        helper.make_node(operator, ["x"], [name], name, **attributes)
        for name, (operator, attributes) in zip(names, chosen, strict=True)
    ]
    model = make_model(nodes, {"x": x.shape}, names, opset=22)
    expected = run_reference(model, {"x": x})
    for actual, wanted in zip(run(model, {"x": x}, whole_build), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rank", SIZES)
def test_the_definition_is_that_of_onnxruntime(rank: int) -> None:
    """But for SAME paddings with dilation, or with windows that are shorter than their stride.

    There onnxruntime computes the padding without the dilation, so that its shape contradicts
    ``onnx.shape_inference``, or starts before the image's first element by a negative padding.
    """
    checked = 0
    for size in SIZES[rank]:
        x = noise(1, 2, *size)
        for operator, attributes in cases(size, 150, seed=rank):
            steps = zip(attributes["kernel_shape"], attributes["strides"], strict=True)
            same = attributes.get("auto_pad", "").startswith("SAME")
            if same and (max(attributes["dilations"]) > 1 or any(k < s for k, s in steps)):
                continue
            model = single(operator, attributes, x.shape)
            try:
                expected = run_reference(model, {"x": x})[0]
            except (Fail, RuntimeException):
                continue
            actual = definition(x, operator, attributes)
            assert expected.shape == actual.shape, attributes
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
            checked += 1
    assert checked > 80


@pytest.mark.parametrize("size", [(5,), (4, 6), (3, 4, 2)], ids=str)
def test_the_norm_of_whole_images(size: tuple[int, ...]) -> None:
    """In one model for all p; onnx.reference has no GlobalLpPool, but the window that is as large.

    The last node's operand is a constant.
    """
    x, powers = noise(2, 3, *size), range(1, 6)
    names = [f"y{p}" for p in powers]
    whole = [
        helper.make_node("GlobalLpPool", ["x"], [name], p=p)
        for name, p in zip(names, powers, strict=True)
    ]
    whole += [
        helper.make_node("GlobalLpPool", ["x"], ["default"]),
        helper.make_node("GlobalLpPool", ["c"], ["folded"], p=3),
    ]
    model = make_model(whole, {"x": x.shape}, [*names, "default", "folded"], {"c": x})
    *actual, default, folded = run(model, {"x": x}, whole_build)
    np.testing.assert_array_equal(default, actual[1])
    np.testing.assert_allclose(folded, actual[2], rtol=1e-6)
    windows = [
        helper.make_node("LpPool", ["x"], [name], kernel_shape=size, p=p)
        for name, p in zip(names, powers, strict=True)
    ]
    equal = make_model(windows, {"x": x.shape}, names, opset=22)
    reference = ReferenceEvaluator(equal).run(None, {"x": x})
    for expected in (reference, run_reference(model, {"x": x})):
        for mine, theirs in zip(actual, expected, strict=False):
            assert mine.shape == theirs.shape
            np.testing.assert_allclose(mine, theirs, rtol=1e-5)


def test_the_definition_is_that_of_onnx_reference() -> None:
    """Where that knows the attributes: explicit padding without dilation and ``ceil_mode``."""
    x, checked = noise(1, 2, 7, 5), 0
    for operator, attributes in cases((7, 5), 200, seed=5):
        plain = max(attributes["dilations"]) == 1 and not attributes["ceil_mode"]
        if not plain or "auto_pad" in attributes or operator == "MaxPool":
            continue
        (expected,) = ReferenceEvaluator(single(operator, attributes, x.shape)).run(None, {"x": x})
        np.testing.assert_allclose(
            definition(x, operator, attributes), expected, rtol=1e-5, atol=1e-6
        )
        checked += 1
    assert checked > 20


def test_a_shape_with_same_padding_and_dilation_is_that_of_onnx() -> None:
    for operator, attributes in cases((7, 5), 100, seed=6):
        if attributes.get("auto_pad", "").startswith("SAME"):
            model = onnx.shape_inference.infer_shapes(single(operator, attributes, (1, 2, 7, 5)))
            inferred = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
            assert inferred[2:] == geometry((7, 5), attributes)[0]


def test_norms_of_windows_take_one_pass_for_a_plane() -> None:
    nodes = [
        helper.make_node("LpPool", ["x"], ["a"], kernel_shape=[3, 2]),
        helper.make_node("LpPool", ["x"], ["b"], kernel_shape=[1, 3], p=1),
    ]
    x = noise(1, 2, 7, 5)
    model = tvmconv.build(make_model(nodes, {"x": x.shape}, ["a", "b"], opset=22), threads=1)
    assert [call.operator for call in model.calls] == ["norm_pool"] * 2
    wanted = np.lib.stride_tricks.sliding_window_view(np.abs(x), 3, 3).sum(-1)
    np.testing.assert_allclose(model.run(x)[1], wanted, rtol=1e-6)


def single(operator: str, attributes: Attributes, shape: tuple[int, ...]) -> onnx.ModelProto:
    """A model of one pooling."""
    node = helper.make_node(operator, ["x"], ["y"], **attributes)
    return make_model([node], {"x": shape}, ["y"], opset=22)
