"""Taps that read only padding are cut off, and pads of signals become their layers'."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.graph.network import Net, check, convs, other_ops, prepared


def _signal_conv(net: Net, x: str, cin: int, cout: int, taps: int, **attrs: Any) -> str:
    weight = net.random(cout, cin // attrs.get("group", 1), taps, scale=(cin * taps) ** -0.5)
    return net.op("Conv", x, weight, net.random(cout), kernel_shape=[taps], **attrs)


@pytest.mark.parametrize(
    ("size", "taps", "pads", "dilation", "kept", "padding"),
    [
        (8, 64, (31, 32), 1, 15, (7, 7)),
        (16, 64, (31, 32), 1, 31, (15, 15)),
        (1, 3, (1, 1), 1, 1, (0, 0)),
        # one output, whose taps read the elements -3, -1, 1, 3, 5
        (2, 5, (3, 4), 2, 2, (1, 0)),
        (64, 3, (1, 1), 1, 3, (1, 1)),
    ],
)
def test_taps_on_padding_are_cut_off(
    size: int, taps: int, pads: tuple[int, int], dilation: int, kept: int, padding: tuple[int, int]
) -> None:
    net = Net(1, 16, size)
    model = net.model(_signal_conv(net, "x", 16, 32, taps, pads=pads, dilations=[dilation]))
    workload = convs(prepared(model))[0].attrs["workload"]
    assert workload.kernel_w == kept
    assert (workload.pad_left, workload.pad_right) == padding
    check(model)


def test_kernels_longer_than_their_image():
    generator = np.random.default_rng(3)
    net, x, channels = Net(1, 8, 3, 2), "x", 8
    results = []
    for _ in range(8):
        kernel, dilations = generator.integers(1, 6, 2), generator.integers(1, 4, 2)
        reach = (kernel - 1) * dilations
        before = [int(generator.integers(0, r + 1)) for r in reach]
        after = [int(r - b) + 2 for r, b in zip(reach, before, strict=True)]
        group = int(generator.choice([1, channels]))
        weight = net.random(channels, channels // group, *map(int, kernel), scale=0.2)
        results.append(
            net.op(
                "Conv",
                x,
                weight,
                pads=[*before, *after],
                strides=[int(s) for s in generator.integers(1, 4, 2)],
                dilations=[int(d) for d in dilations],
                group=group,
            )
        )
    check(net.model(*results))


def test_a_kernel_that_reads_only_padding_gives_its_bias():
    net = Net(1, 16, 1, 1)
    # rows -3 and 3 of an image of one row
    weight, bias = net.random(16, 16, 2, 1), net.random(16)
    check(net.model(net.op("Conv", "x", weight, bias, pads=[3, 0, 3, 0], dilations=[6, 1])))


def test_kernels_of_volumes_in_a_quantized_network():
    """Their rows belong to three planes, of which two are padding for one image of two rows."""
    net = Net(1, 8, 4, 2, 2)
    parameters = (net.const(np.float32(0.05)), net.const(np.uint8(128)))
    rounded = net.op("DequantizeLinear", net.op("QuantizeLinear", "x", *parameters), *parameters)
    kernel = net.random(16, 8, 3, 3, 3, scale=0.1)
    check(net.model(net.op("Conv", rounded, kernel, net.random(16), pads=[1] * 6)))


def test_pads_of_signals_become_their_layers():
    net = Net(2, 16, 40)
    y = "x"
    for _ in range(2):
        y = net.op("Pad", y, net.const(np.array([0, 0, 3, 0, 0, 4])))
        y = net.op("Relu", _signal_conv(net, y, 16, 16, 8))
        numbers = [net.random(16), net.random(16), net.random(16), net.const(np.ones(16, "f4"))]
        y = net.op("BatchNormalization", y, *numbers)
        y = net.op("Pad", y, net.const(np.array([0, 0, 0, 0, 0, 1])))
        y = net.op("AveragePool", y, kernel_shape=[2], strides=[2])
    model = net.model(_signal_conv(net, y, 16, 16, 3))
    found = other_ops(prepared(model))
    assert "nn.pad" not in found and "nn.avg_pool2d" in found
    check(model)
    y = net.op("Pad", net.op("Relu", y), net.const(np.array([0, 0, 1, 0, 0, 1])))
    y = net.op("MaxPool", y, kernel_shape=[3], strides=[2])
    model = net.model(_signal_conv(net, y, 16, 16, 3))
    assert "nn.pad" not in other_ops(prepared(model))
    check(model)
