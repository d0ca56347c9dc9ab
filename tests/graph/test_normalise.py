"""Rewrites of a graph before matching, on graphs made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.network import Net, convs, other_ops, prepared
from tvmconv.graph.fold import evaluate, fold_constants
from tvmconv.graph.ir import Graph, Value, constant, make_node
from tvmconv.graph.normalise import merge_duplicates


def image(*shape: int) -> Value:
    return Value(shape, "float32", "x")


def test_constants_fold_in_double_precision():
    third = constant(np.array([1 / 3], np.float32))
    node = make_node("multiply", [third, third], (1,))
    result = evaluate(node)
    assert result is not None
    assert result.dtype == np.float64
    assert result[0] == float(np.float32(1 / 3)) ** 2


def test_chain_of_constants_folds_away():
    x = image(1, 2, 2, 2)
    root = make_node("sqrt", [constant(np.full((2,), 4.0, np.float32))], (2,))
    shaped = make_node("reshape", [root.output], (1, 2, 1, 1))
    scaled = make_node("multiply", [x, shaped.output], (1, 2, 2, 2))
    graph = Graph([x], [root, shaped, scaled], [scaled.output])
    fold_constants(graph)
    assert [node.op for node in graph.nodes] == ["multiply"]
    np.testing.assert_array_equal(scaled.const(1).ravel(), [2, 2])


def test_equal_calls_are_computed_once():
    x = image(1, 2)
    first, second = make_node("tanh", [x], (1, 2)), make_node("tanh", [x], (1, 2))
    total = make_node("add", [first.output, second.output], (1, 2))
    graph = Graph([x], [first, second, total], [total.output])
    merge_duplicates(graph)
    assert graph.nodes == [first, total]
    assert total.args == [first.output, first.output]


def test_dead_nodes_vanish():
    x = image(1, 2)
    used, unused = make_node("tanh", [x], (1, 2)), make_node("sigmoid", [x], (1, 2))
    graph = Graph([x], [used, unused], [used.output])
    graph.remove_dead()
    assert graph.nodes == [used]


def test_channel_shuffle_is_one_node():
    net = Net(1, 16, 8, 8)
    y = net.op("Reshape", net.conv("x", 16, 24), net.const(np.array([1, 4, 6, 8, 8])))
    y = net.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    y = net.op("Reshape", y, net.const(np.array([1, 24, 8, 8])))
    graph = prepared(net.model(net.conv(y, 24, 16)))
    assert other_ops(graph) == ["channel_shuffle"]
    assert graph.nodes[1].attrs == {"groups": 4}


@pytest.mark.parametrize(("mode", "inner"), [("DCR", 6), ("CRD", 1)])
def test_depth_to_space_is_one_node(mode: str, inner: int):
    net = Net(1, 16, 8, 8)
    y = net.op("DepthToSpace", net.conv("x", 16, 24), blocksize=2, mode=mode)
    graph = prepared(net.model(net.conv(y, 6, 16)))
    assert other_ops(graph) == ["depth_to_space"]
    assert graph.nodes[1].attrs["inner"] == inner


def test_local_response_normalisation_is_one_node():
    net = Net(1, 16, 8, 8)
    y = net.op("LRN", net.conv("x", 16, 24), size=5, alpha=0.01, beta=0.5, bias=2.0)
    graph = prepared(net.model(net.conv(y, 24, 16)))
    assert other_ops(graph) == ["lrn"]
    attrs = graph.nodes[1].attrs
    assert attrs["size"] == 5
    np.testing.assert_allclose([attrs[k] for k in ("alpha", "beta", "bias")], [0.01, 0.5, 2.0])


def test_signals_between_convolutions_stay_images():
    net = Net(1, 16, 32)
    y = net.op("Conv", "x", net.random(24, 16, 3), net.random(24), pads=[1, 1])
    y = net.op("Relu", y)
    y = net.op("Conv", y, net.random(16, 24, 5), strides=[2])
    graph = prepared(net.model(y))
    assert [node.op for node in graph.nodes] == [
        "reshape",
        "tvmconv.conv2d",
        "tvmconv.conv2d",
        "reshape",
    ]
    assert [str(node.attrs["workload"]) for node in convs(graph)] == [
        "mb1ic16ih1iw32oc24oh1ow32kh1kw3ph0pw1+bias+relu",
        "mb1ic24ih1iw32oc16oh1ow14kh1kw5sh1sw2",
    ]


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_transposed_convolution_becomes_stride_one(stride: int):
    net = Net(1, 16, 7, 7)
    y = net.op("ConvTranspose", "x", net.random(16, 20, 4, 4), net.random(20), strides=[stride] * 2)
    graph = prepared(net.model(net.op("Relu", y)))
    (conv,) = convs(graph)
    workload = conv.attrs["workload"]
    assert [str(step) for step in workload.epilogue] == ["bias", "relu"]
    assert (workload.stride_h, workload.kernel_h) == (1, -(-4 // stride))
    # the channels of each phase fill whole blocks
    assert workload.out_channels == (20 if stride == 1 else stride**2 * 32)
    assert other_ops(graph) == ([] if stride == 1 else ["depth_to_space"])


def test_padding_merges_into_pooling_only_where_it_cannot_win():
    def ops(activation: bool) -> list[str]:
        net = Net(1, 16, 8, 8)
        y = net.conv("x", 16, 16)
        y = net.op("Relu", y) if activation else y
        y = net.op("Pad", y, net.const(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
        y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2])
        return other_ops(prepared(net.model(net.conv(y, 16, 16))))

    assert ops(activation=True) == ["nn.max_pool2d"]
    assert ops(activation=False) == ["nn.pad", "nn.max_pool2d"]
