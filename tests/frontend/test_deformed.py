"""DeformConv against onnx.reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.onnx_runner import make_model, noise, run, whole_build
from tvmconv.core.errors import ModelError


@pytest.mark.parametrize(
    ("kernel", "attrs", "mask", "constant", "opset"),
    [
        # small ones: LLVM takes long for each kernel element of each part of the offsets
        ((2, 2), {"pads": [1, 0, 2, 1], "offset_group": 2}, True, True, 19),
        (
            (1, 3),
            {"group": 2, "offset_group": 3, "strides": [2, 1], "dilations": [1, 2]},
            False,
            True,
            22,
        ),
        ((2, 1), {"group": 3, "pads": [1, 1, 1, 1]}, True, False, 19),
    ],
)
def test_results(
    kernel: tuple[int, int], attrs: dict[str, Any], mask: bool, constant: bool, opset: int
):
    channels, size, taps = 6, (5, 6), kernel[0] * kernel[1]
    pads, strides = attrs.get("pads", [0] * 4), attrs.get("strides", [1, 1])
    dilations, parts = attrs.get("dilations", [1, 1]), attrs.get("offset_group", 1)
    output = [
        (n + pads[i] + pads[i + 2] - (k - 1) * dilations[i] - 1) // strides[i] + 1
        for i, (n, k) in enumerate(zip(size, kernel, strict=True))
    ]
    feeds = {
        "x": noise(2, channels, *size),
        "offset": 2 * noise(2, parts * 2 * taps, *output, seed=1),
    }
    feeds["offset"][0, :, 0] = -100
    parameters = {"w": noise(6, channels // attrs.get("group", 1), *kernel, seed=2), "b": noise(6)}
    if mask:
        feeds["mask"] = noise(2, parts * taps, *output, seed=3)
    if not constant:
        feeds.update(parameters)
        parameters = {}
    names = ["x", "w", "offset", "b", *(["mask"] if mask else [])]
    node = helper.make_node("DeformConv", names, ["y"], kernel_shape=kernel, **attrs)
    shapes = {name: value.shape for name, value in feeds.items()}
    model = make_model([node], shapes, ["y"], parameters, opset=opset)
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    (found,) = run(model, feeds, whole_build)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize(
    ("attrs", "offset", "reason"),
    [
        ({}, (1, 16, 4, 4), "offsets have shape"),
        ({"offset_group": 3}, (1, 18, 4, 4), "offset_group=3"),
        ({"pads": [1, 1]}, (1, 18, 4, 4), "pads"),
        ({"group": 3}, (1, 18, 4, 4), "channels"),
    ],
)
def test_malformed(attrs: dict[str, Any], offset: tuple[int, ...], reason: str):
    node = helper.make_node("DeformConv", ["x", "w", "offset"], ["y"], "deformed", **attrs)
    shapes = {"x": (1, 2, 6, 6), "offset": offset}
    model = make_model([node], shapes, ["y"], {"w": noise(2, 2, 3, 3)}, opset=19)
    with pytest.raises(ModelError, match=f"deformed.*{reason}"):
        run(model, {}, whole_build)
