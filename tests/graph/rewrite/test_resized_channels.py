"""1x1 convolutions of resized images are computed on the pixels before the resize."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.graph.network import Net, check, convs, other_ops, prepared


def _resized(net: Net, x: str, scale: float, **attrs: Any) -> str:
    scales = net.const(np.array([1, 1, scale, scale], np.float32))
    return net.op("Resize", x, "", scales, **attrs)


def _layers(net: Net, *results: str) -> list[str]:
    return sorted(node.layer for node in convs(prepared(net.model(*results))))


def _pixels(net: Net, *results: str) -> list[tuple[int, int]]:
    graph = prepared(net.model(*results))
    works = [node.attrs["workload"] for node in convs(graph)]
    return [(w.in_channels, w.in_height * w.in_width) for w in works]


@pytest.mark.parametrize("mode", ["nearest", "linear", "align_corners"])
def test_a_resized_image(mode: str) -> None:
    net = Net(1, 64, 5, 6)
    attrs = {"mode": "nearest"}
    if mode == "nearest":
        attrs |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    else:
        attrs = {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
        attrs |= {"coordinate_transformation_mode": mode} if mode == "align_corners" else {}
    y = _resized(net, "x", 2.0, **attrs)
    y = net.op("Relu", net.conv(y, 64, 24, k=1))
    assert _pixels(net, y) == [(64, 30)]
    check(net.model(y))


def test_resized_parts_of_joined_channels():
    net = Net(2, 64, 4, 4)
    net.input("skip", 2, 20, 16, 16)
    net.input("other", 2, 72, 8, 8)
    small = _resized(net, "x", 4.0, mode="linear")
    large = _resized(net, "other", 2.0, mode="linear")
    joined = net.op("Concat", small, "skip", large, "skip", axis=1)
    numbers = [net.random(40), net.random(40), net.random(40), net.const(np.ones(40, "float32"))]
    y = net.op("BatchNormalization", net.conv(joined, 176, 40, k=1, bias=False), *numbers)
    y = net.op("Relu", y)
    assert sorted(_pixels(net, y)) == [(40, 256), (64, 16), (72, 64)]
    layer = net.nodes[3].name
    assert _layers(net, y) == [layer, f"{layer}.0", f"{layer}.1"]
    check(net.model(y))
    # two convolutions read the joined channels, as in detectors
    z = net.op("Sigmoid", net.conv(joined, 176, 16, k=1))
    assert sorted(_pixels(net, y, z)) == sorted([(40, 256), (64, 16), (72, 64)] * 2)
    # both join the skipped channels, once
    assert other_ops(prepared(net.model(y, z))).count("concat") == 1
    check(net.model(y, z))


def test_all_parts_are_resized():
    net = Net(1, 64, 4, 4)
    net.input("other", 1, 64, 8, 8)
    parts = [_resized(net, "x", 4.0, mode="linear"), _resized(net, "other", 2.0, mode="linear")]
    conv = net.conv(net.op("Concat", *parts, axis=1), 128, 16, k=1)
    y = net.op("Relu", conv)
    assert _layers(net, y) == [conv, f"{conv}.1"]
    assert sorted(_pixels(net, y)) == [(64, 16), (64, 64)]
    check(net.model(y))


def test_resizes_that_stay_before_the_convolution():
    net = Net(1, 64, 8, 8)
    enlarged = _resized(net, "x", 2.0, mode="linear")
    # few channels, fewer pixels, a 3x3 kernel, and a second reader
    few = _resized(net, net.conv("x", 64, 16), 2.0, mode="linear")
    smaller = _resized(net, "x", 0.5, mode="linear")
    read = _resized(net, net.op("Relu", "x"), 2.0, mode="linear")
    results = [
        net.conv(few, 16, 16, k=1),
        net.conv(smaller, 64, 16, k=1),
        net.conv(enlarged, 64, 16),
        net.conv(read, 64, 16, k=1),
        net.op("Abs", read),
    ]
    found = other_ops(prepared(net.model(*results)))
    assert found.count("image.resize2d") == 4
    pixels = _pixels(net, *results)
    assert pixels.count((64, 256)) == 2 and (16, 256) in pixels and (64, 16) in pixels
    check(net.model(*results))
