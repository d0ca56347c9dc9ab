"""Images that become tokens, and tokens that become images."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.network import Net, check, other_ops, planned
from tvmconv.graph.rewrite.tokens import FIRST, LAST


def tokens(net: Net, x: str, channels: int) -> str:
    """(N, C, 6, 7) as rows of channels."""
    rows = net.op("Reshape", x, net.const(np.array([2, channels, 42])))
    return net.op("Transpose", rows, perm=[0, 2, 1])


def image(net: Net, rows: str, channels: int) -> str:
    x = net.op("Transpose", rows, perm=[0, 2, 1])
    return net.op("Reshape", x, net.const(np.array([2, channels, 6, 7])))


@pytest.mark.parametrize("channels", [32, 24])
def test_layers_between_tokens_and_images(channels: int):
    """Channels that fill their blocks on every machine, and on some."""
    net = Net(2, 5, 6, 7)
    rows = tokens(net, net.conv("x", 5, channels), channels)
    mixed = net.op("MatMul", net.op("Sigmoid", rows), net.random(channels, channels))
    x = image(net, mixed, channels)
    again = tokens(net, net.conv(x, channels, channels, group=channels), channels)
    rows = net.op("Add", net.op("Tanh", again), rows)
    # a product with a transposed operand, and an image that is read in both layouts
    product = net.op("MatMul", rows, net.op("Transpose", rows, perm=[0, 2, 1]))
    x = image(net, rows, channels)
    results = [product, net.conv(x, channels, 8), net.op("Softmax", x, axis=2)]
    model = net.model(*results)
    graph, plan = planned(model)
    axes = [node.attrs["axes"] for node in graph.nodes if node.op == "permute_dims"]
    assert axes.count(LAST) == axes.count(FIRST) == 2
    if channels == 32:
        assert sum(node.op == "permute_dims" for node in plan.blocked) == 2
    check(model)


def test_channels_last_are_joined():
    net = Net(1, 5, 6, 7)
    parts = [net.op("Transpose", x, perm=[0, 2, 3, 1]) for x in (net.conv("x", 5, 8), "x")]
    check(net.model(net.op("Concat", *parts, axis=3)))


def test_tokens_of_an_image_of_tokens_are_the_tokens():
    net = Net(2, 42, 16)
    x = image(net, "x", 16)
    model = net.model(net.op("Sqrt", net.op("Abs", tokens(net, x, 16))), net.conv(x, 16, 4))
    graph, _ = planned(model)
    assert other_ops(graph).count("permute_dims") == 1
    check(model)
