"""Instance and layer norm, sections with channels last, repeated borders."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.network import Net, check, convs, epilogues, other_ops, planned, prepared
from tvmconv.graph.rewrite.row_gathers import PICK
from tvmconv.graph.rewrite.statistics import STANDARDIZE


def instance(net: Net, x: str, channels: int) -> str:
    scale, shift = (net.random(channels) for _ in range(2))
    return net.op("InstanceNormalization", x, scale, shift)


def group(net: Net, x: str, channels: int, groups: int, *image: int) -> str:
    """As exporters spell it for opsets without the operator."""
    rows = net.op("Reshape", x, net.const(np.array([0, groups, -1])))
    ones, zeros = (net.const(np.full(groups, n, np.float32)) for n in (1, 0))
    normal = net.op("InstanceNormalization", rows, ones, zeros)
    back = net.op("Reshape", normal, net.const(np.array([2, channels, *image])))
    along = (channels, *(1,) * len(image))
    return net.op("Add", net.op("Mul", back, net.random(*along)), net.random(*along))


def layer(net: Net, x: str, channels: int, spelled: bool) -> str:
    scale, shift = (net.random(channels) for _ in range(2))
    if not spelled:
        return net.op("LayerNormalization", x, scale, shift, axis=-1)
    centred = net.op("Sub", x, net.op("ReduceMean", x, axes=[-1]))
    square = net.op("Pow", centred, net.const(np.float32(2)))
    variance = net.op("ReduceMean", square, axes=[-1])
    root = net.op("Sqrt", net.op("Add", variance, net.const(np.float32(1e-6))))
    return net.op("Add", net.op("Mul", net.op("Div", centred, root), scale), shift)


def last_section(net: Net, x: str, channels: int, spelled: bool = False) -> str:
    """The block of ConvNeXt."""
    section = net.op("Transpose", x, perm=[0, 2, 3, 1])
    section = layer(net, section, channels, spelled)
    wide = net.op("MatMul", section, net.random(channels, 3 * channels))
    wide = net.op("Relu", net.op("Add", wide, net.random(3 * channels)))
    narrow = net.op("MatMul", wide, net.random(3 * channels, channels, scale=0.2))
    narrow = net.op("Add", narrow, net.random(channels))
    back = net.op("Transpose", narrow, perm=[0, 3, 1, 2])
    return net.op("Add", net.op("Mul", back, net.random(channels, 1, 1)), x)


def padded(net: Net, x: str, mode: str) -> str:
    return net.op("Pad", x, net.const(np.array([0, 0, 1, 3, 0, 0, 2, 1])), mode=mode)


def test_images_stay_in_blocks():
    """Values of a layer's output beyond its channels take no part; a mean far from 0 counts."""
    net = Net(2, 3, 9, 11)
    x = net.op("Add", net.conv("x", 3, 20), net.const(np.float32(50)))
    x = net.op("Relu", instance(net, x, 20))
    x = net.conv(padded(net, x, "reflect"), 20, 20, pads=[0] * 4)
    x = group(net, x, 20, 5, 10, 13)
    x = net.conv(padded(net, x, "edge"), 20, 20)
    x = net.conv(last_section(net, x, 20), 20, 8)
    model = net.model(x)
    graph, plan = planned(model)
    kinds = [node.op for node in graph.nodes if node in plan.blocked]
    assert (kinds.count(STANDARDIZE), kinds.count(PICK)) == (3, 2)
    assert not {"reshape", "take", "sqrt", "permute_dims", "matmul", "dense"} & set(
        other_ops(graph)
    )
    # scale, bias and residual of the section belong to its last layer
    assert epilogues(graph)[-3:-1] == ["bias+relu", "bias+add"]
    check(model)


def test_statistics_of_a_batch_stay_in_blocks() -> None:
    """After a convolution, with channels that do not fill their blocks, and running statistics."""
    net = Net(3, 3, 5, 6)
    x = net.op("Add", net.conv("x", 3, 20), net.const(np.float32(50)))
    parameters = [net.random(20) for _ in range(4)]
    x, mean, variance = net.op("BatchNormalization", x, *parameters, outputs=3, training_mode=1)
    model = net.model(net.op("Relu", x), mean, variance)
    graph, plan = planned(model)
    (node,) = (node for node in graph.nodes if node.op == STANDARDIZE)
    assert node in plan.blocked and len(node.outputs) == 3
    assert not {"mean", "sqrt", "divide"} & set(other_ops(graph))
    check(model)


def test_signals_and_tokens():
    net = Net(2, 24, 30)
    x = net.op("Conv", "x", net.random(24, 24, 3), pads=[1, 1])
    x = net.op("Conv", group(net, x, 24, 1, 30), net.random(24, 24, 3))
    rows = net.op("Transpose", x, perm=[0, 2, 1])
    rows = layer(net, rows, 24, spelled=True)
    wide = net.op("Add", net.op("MatMul", rows, net.random(24, 40)), net.random(40))
    rows = net.op("Add", net.op("MatMul", net.op("Sigmoid", wide), net.random(40, 24)), rows)
    model = net.model(rows)
    found = other_ops(prepared(model))
    assert found.count(STANDARDIZE) == found.count("tvmconv.dense") == 2
    assert not {"matmul", "sqrt", "nn.conv1d"} & set(found)
    check(model)


@pytest.mark.parametrize("spelled", [False, True])
def test_sections_with_channels_last_become_convolutions(spelled: bool):
    net = Net(1, 3, 8, 8)
    x = last_section(net, net.conv("x", 3, 16), 16, spelled)
    graph = prepared(net.model(x))
    assert len(convs(graph)) == 3
    assert other_ops(graph) == [STANDARDIZE, "multiply", "add"]


def test_what_only_resembles_them_stays():
    """Two means over different axes, a deviation of something else, and a transposed result."""
    net = Net(1, 16, 8, 8)
    centred = net.op("Sub", "x", net.op("ReduceMean", "x", axes=[2, 3]))
    squares = net.op("Mul", centred, centred)
    results = []
    for variance in (
        net.op("ReduceMean", squares, axes=[3]),
        net.op("ReduceMean", "x", axes=[2, 3]),
    ):
        shifted = net.op("Add", net.op("Abs", variance), net.const(np.float32(1e-3)))
        results.append(net.op("Div", centred, net.op("Sqrt", shifted)))
    last = net.op("Transpose", net.conv("x", 16, 16), perm=[0, 2, 3, 1])
    results += [net.op("Relu", last), net.op("ReduceMean", last, axes=[1, 2])]
    model = net.model(*results)
    assert STANDARDIZE not in other_ops(prepared(model))
    check(model)
