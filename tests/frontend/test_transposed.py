"""Random transposed convolutions against their definition, onnxruntime and torch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

from tests.frontend.bad_models import refuse
from tests.frontend.onnx_runner import make_model, noise, run, run_reference, whole_build

Attributes = dict[str, Any]
SHAPE = (1, 4, 5, 4)


def cases(count: int, seed: int) -> Iterator[tuple[tuple[int, ...], Attributes]]:
    """Weight shapes and attributes; output_padding is below the stride or the dilation."""
    rng = random.Random(seed)
    while count:
        groups = rng.choice([1, 1, 2, 4])
        kernel = [rng.randint(1, 4) for _ in range(2)]
        strides = [rng.randint(1, 3) for _ in range(2)]
        dilations = [rng.randint(1, 3) for _ in range(2)]
        added = [rng.randint(0, max(s, d) - 1) for s, d in zip(strides, dilations, strict=True)]
        attributes: Attributes = {
            "group": groups,
            "strides": strides,
            "dilations": dilations,
            "output_padding": added,
        }
        mode = rng.choice(["", "pads", "pads", "output_shape", "SAME_UPPER", "SAME_LOWER", "VALID"])
        if mode == "pads":
            attributes["pads"] = [rng.randint(0, 2) for _ in range(4)]
        elif mode == "output_shape":
            attributes["output_shape"] = [
                s * (n - 1) + rng.randint(1, 1 + (k - 1) * d)
                for s, n, k, d in zip(strides, SHAPE[2:], kernel, dilations, strict=True)
            ]
        elif mode:
            attributes["auto_pad"] = mode
        if min(geometry(kernel, attributes)[0]) >= 1:
            count -= 1
            yield (4, rng.choice([1, 3]), *kernel), attributes


def geometry(kernel: list[int], attributes: Attributes) -> tuple[list[int], list[int]]:
    """Output extents, and rows and columns cut off before the first of them."""
    output, begins = [], []
    mode = attributes.get("auto_pad", "")
    for i, n in enumerate(SHAPE[2:]):
        stride = attributes["strides"][i]
        span = (kernel[i] - 1) * attributes["dilations"][i] + 1
        full = stride * (n - 1) + span + attributes["output_padding"][i]
        pads = attributes.get("pads", [0] * 4)
        begin, extent = pads[i], full - pads[i] - pads[i + 2]
        if mode.startswith("SAME") or "output_shape" in attributes:
            extent = attributes["output_shape"][i] if "output_shape" in attributes else n * stride
            total = max(full - extent, 0)
            begin = total // 2 if mode == "SAME_UPPER" else total - total // 2
        output.append(extent)
        begins.append(begin)
    return output, begins


def definition(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, attributes: Attributes
) -> np.ndarray:
    """Every input element times the kernel, added up in float64; cut, or zeros added, as asked."""
    strides, dilations, groups = (attributes[k] for k in ("strides", "dilations", "group"))
    extents = [
        s * (n - 1) + (k - 1) * d + 1
        for s, n, k, d in zip(strides, x.shape[2:], weight.shape[2:], dilations, strict=True)
    ]
    full = np.zeros((x.shape[0], weight.shape[1] * groups, *extents))
    inputs = np.split(x.astype(np.float64), groups, axis=1)
    filters = np.split(weight.astype(np.float64), groups, axis=0)
    for (h, w), (r, s) in itertools.product(np.ndindex(x.shape[2:]), np.ndindex(weight.shape[2:])):
        products = [i[:, :, h, w] @ f[:, :, r, s] for i, f in zip(inputs, filters, strict=True)]
        place = (h * strides[0] + r * dilations[0], w * strides[1] + s * dilations[1])
        full[(..., *place)] += np.concatenate(products, axis=1)
    (height, width), (top, left) = geometry(list(weight.shape[2:]), attributes)
    padded = np.pad(full, [(0, 0), (0, 0), (0, top + height), (0, left + width)])
    cut = padded[:, :, top : top + height, left : left + width]
    return cut + bias.reshape(1, -1, 1, 1)


def sweep(count: int, seed: int, *, run_time: bool = False) -> None:
    """Many transposed convolutions of one input as one model; weights are constants, or inputs."""
    x, constants, nodes, expected = noise(*SHAPE, seed=seed), {}, [], []
    chosen = list(cases(count, seed))
    for i, (shape, attributes) in enumerate(chosen):
        weight, bias = noise(*shape, seed=i), noise(shape[1] * attributes["group"], seed=i + 1)
        constants |= {f"w{i}": weight, f"b{i}": bias}
        operands = ["x", f"w{i}", f"b{i}"]
        nodes.append(helper.make_node("ConvTranspose", operands, [f"y{i}"], f"up{i}", **attributes))
        expected.append(definition(x, weight, bias, attributes))
    names = [f"y{i}" for i in range(len(chosen))]
    feed = {"x": x, **(constants if run_time else {})}
    shapes = {name: value.shape for name, value in feed.items()}
    model = make_model(nodes, shapes, names, {} if run_time else constants)
    for actual, wanted, case in zip(run(model, feed, whole_build), expected, chosen, strict=True):
        assert wanted.shape == actual.shape, case
        np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5, err_msg=str(case))


def test_any_window() -> None:
    sweep(14, seed=0)


def test_any_window_of_kernels_that_are_inputs() -> None:
    sweep(8, seed=9, run_time=True)


def test_dilated_kernels_of_signals_and_volumes_that_are_inputs() -> None:
    nodes, feed = [], {}
    for rank in (1, 3):
        feed |= {f"x{rank}": noise(1, 2, *[4] * rank), f"w{rank}": noise(2, 3, *[2] * rank)}
        attributes = {"dilations": [3, 2, 1][:rank], "strides": [2, 2, 1][:rank]}
        operands = [f"x{rank}", f"w{rank}"]
        nodes.append(helper.make_node("ConvTranspose", operands, [f"y{rank}"], **attributes))
    shapes = {name: value.shape for name, value in feed.items()}
    model = make_model(nodes, shapes, ["y1", "y3"])
    for actual, expected in zip(run(model, feed), run_reference(model, feed), strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5, strict=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_any_window_thoroughly(seed: int) -> None:
    sweep(100, seed)
    sweep(40, seed, run_time=True)


def test_output_padding_returns_what_the_end_padding_cut_off() -> None:
    """Dilation 2 admits output_padding 1 at stride 1, which onnxruntime refuses."""
    torch = pytest.importorskip("torch", reason="torch is no requirement of the tests")
    x, weight = noise(1, 4, 5, 5), noise(4, 4, 3, 3, seed=1)
    attributes: Attributes = {"dilations": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", **attributes)
    model = make_model([node], {"x": x.shape}, ["y"], {"w": weight})
    expected = torch.nn.functional.conv_transpose2d(
        torch.from_numpy(x), torch.from_numpy(weight), padding=1, output_padding=1, dilation=2
    )
    (actual,) = run(model, {"x": x}, whole_build)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-4, atol=1e-5)


def test_phases_that_would_hold_nothing_but_zeros() -> None:
    """Strides far beyond the kernel: it stays a plain loop, and the build says so."""
    attributes: Attributes = {"strides": [3100, 3100], "pads": [3097, 3098, 1, 2]}
    x, weight = noise(1, 1, 2, 2), noise(1, 1, 3, 3, seed=1)
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", **attributes)
    model = make_model([node], {"x": x.shape}, ["y"], {"w": weight})
    with pytest.warns(UserWarning, match=r"plain loops.*up"):
        (actual,) = run(model, {"x": x}, whole_build)
    (expected,) = run_reference(model, {"x": x})
    assert actual.shape == expected.shape == (1, 1, 5, 3)
    assert expected.any()
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_the_definition_is_that_of_onnxruntime() -> None:
    """But for SAME paddings of an output beyond what the taps reach, which it makes smaller."""
    checked, x = 0, noise(*SHAPE)
    for shape, attributes in cases(150, seed=7):
        short = any(k < s for k, s in zip(shape[2:], attributes["strides"], strict=True))
        if short and attributes.get("auto_pad", "").startswith("SAME"):
            continue
        weight, bias = noise(*shape, seed=1), noise(shape[1] * attributes["group"], seed=2)
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], "up", **attributes)
        model = make_model([node], {"x": SHAPE}, ["y"], {"w": weight, "b": bias})
        try:
            expected = run_reference(model, {"x": x})[0]
        except (Fail, InvalidArgument, RuntimeException):
            continue
        actual = definition(x, weight, bias, attributes)
        assert expected.shape == actual.shape, attributes
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5, err_msg=str(attributes))
        checked += 1
    assert checked > 50


@pytest.mark.parametrize(
    ("tail", "operand"),
    [
        ([helper.make_node("Add", ["a", "c"], ["y"], "end")], noise(1, 3, 14, 11)),
        ([helper.make_node("Reshape", ["a", "c"], ["y"], "end")], np.array([1, 462])),
        (
            [
                helper.make_node("Flatten", ["a"], ["f"], "flat"),
                helper.make_node("Gemm", ["f", "c"], ["y"], "end"),
            ],
            noise(462, 5),
        ),
    ],
)
def test_a_layer_that_wants_the_size_of_onnxruntime_names_the_cause(
    tail: list[Any], operand: np.ndarray
) -> None:
    x, up = noise(*SHAPE), {"strides": [3, 3]}
    constants = {"w": noise(4, 3, 2, 2), "c": operand}

    def model(**attributes: Any) -> Any:
        node = helper.make_node("ConvTranspose", ["x", "w"], ["a"], "up", **up, **attributes)
        return make_model([node, *tail], {"x": SHAPE}, ["y"], constants)

    same = model(auto_pad="SAME_UPPER")
    refuse(same, "'end'", "'up' (ConvTranspose)", "SAME_UPPER", "(15, 12)", "pads")
    expected = run_reference(same, {"x": x})[0]
    np.testing.assert_allclose(run(model(), {"x": x})[0], expected, rtol=1e-4, atol=1e-5)
