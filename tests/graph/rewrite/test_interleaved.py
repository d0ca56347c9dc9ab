"""Depth-to-space after convolutions, whose channels have any order, and at the end of networks."""

from __future__ import annotations

import pytest

from tests.graph.network import Net, check, convs, planned


def shuffled(net: Net, x: str, channels: int, mode: str, block: int = 2) -> str:
    wide = net.op("Relu", net.conv(x, 16, channels * block * block))
    return net.op("DepthToSpace", wide, mode=mode, blocksize=block)


@pytest.mark.parametrize("mode", ["CRD", "DCR"])
def test_whole_vectors_move_where_a_convolution_goes_before(mode: str):
    net = Net(2, 3, 6, 7)
    x = net.conv(shuffled(net, net.conv("x", 3, 16), 20, mode), 20, 16)
    model = net.model(shuffled(net, x, 3, mode, 3))
    graph, plan = planned(model)
    first, last = (node for node in graph.nodes if node.op == "depth_to_space")
    assert (first.attrs["inner"], first.attrs["stride"]) == (20, 32)
    assert [node.attrs["workload"].out_channels for node in convs(graph)] == [16, 128, 16, 27]
    assert plan.leaving == {last}
    check(model)


def test_channels_that_others_read_keep_their_order():
    net = Net(1, 3, 6, 7)
    x = net.conv("x", 3, 64)
    model = net.model(net.op("DepthToSpace", x, blocksize=2, mode="CRD"), net.op("Abs", x))
    graph, _ = planned(model)
    (node,) = (node for node in graph.nodes if node.op == "depth_to_space")
    assert node.attrs["inner"] == node.attrs["stride"] == 1


def test_transposed_convolution_of_a_pixel_multiplies_no_padding():
    net = Net(2, 20, 1, 1)
    weight = net.random(20, 24, 4, 4)
    x = net.op("Relu", net.op("ConvTranspose", "x", weight, net.random(24), strides=[1, 1]))
    weight = net.random(24, 4, 4, 4)
    model = net.model(net.op("ConvTranspose", x, weight, strides=[2, 2], pads=[1] * 4))
    first, second = (node.attrs["workload"] for node in convs(planned(model)[0]))
    assert (first.kernel_h, first.kernel_w, first.pad_top) == (1, 1, 0)
    assert (second.kernel_h, second.kernel_w) == (2, 2)
    check(model)
