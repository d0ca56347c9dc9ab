"""Rewrites of a graph before matching, on graphs made by hand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tests.graph.network import Net, check, convs, other_ops, prepared
from tvmconv.graph.ir import Graph, Value, constant, make_node
from tvmconv.graph.rewrite.fold import evaluate, fold_constants
from tvmconv.graph.rewrite.normalize import merge_duplicates


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


def _one_constant_to_sum(length: int, width: int) -> Graph:
    """x + a chain of negations, each of which but the first reads a computed constant."""
    x = Value((1,), "float32", "x")
    value, nodes = constant(np.broadcast_to(np.float32(2), (width,))), []
    for _ in range(length):
        nodes.append(make_node("negative", [value], (width,)))
        value = nodes[-1].output
    nodes.append(make_node("add", [x, value], (width,)))
    return Graph([x], nodes, [nodes[-1].output])


def test_constants_of_any_size_fold_if_the_given_ones_are_as_large():
    """One of 272 MB, from half as many."""
    given = constant(np.ones(34_000_000, np.float32))
    product = make_node("multiply", [given, constant(np.array(3, np.float32))], given.dims)
    last = make_node("add", [Value(given.dims, "float32", "x"), product.output], given.dims)
    graph = Graph([last.args[0]], [product, last], [last.output])
    fold_constants(graph)
    assert graph.nodes == [last]
    assert last.const(1)[-1] == 3


def test_used_constants_are_released():
    graph = _one_constant_to_sum(30, 4_000_000)
    tracemalloc.start()
    fold_constants(graph)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [node.op for node in graph.nodes] == ["add"]
    assert peak < 130e6
    assert graph.nodes[0].const(1)[0] == 2


def test_views_keep_what_they_show():
    """The budget counts an array until its last view is used up."""
    x = Value((4, 3), "float32", "x")
    row = make_node("negative", [constant(np.arange(12, dtype=np.float32))], (12,))
    shaped = make_node("reshape", [row.output], (3, 4))
    turned = make_node("permute_dims", [shaped.output], (4, 3), attrs={"axes": (1, 0)})
    once, twice = (make_node("add", [x, turned.output], (4, 3)) for _ in range(2))
    graph = Graph([x], [row, shaped, turned, once, twice], [once.output, twice.output])
    fold_constants(graph)
    assert graph.nodes == [once, twice]
    np.testing.assert_array_equal(twice.const(1), -np.arange(12).reshape(3, 4).T)


def test_constants_beyond_the_budget_stay_with_the_model():
    """Forty of 16 MB, all alive at the end, computed from next to nothing."""
    x, seed = Value((1,), "float32", "x"), constant(np.broadcast_to(np.float32(2), (2_000_000,)))
    parts = [make_node("multiply", [seed, seed], seed.dims) for _ in range(40)]
    ends = [make_node("add", [x, part.output], seed.dims) for part in parts]
    graph = Graph([x], [*parts, *ends], [end.output for end in ends])
    fold_constants(graph)
    left = sum(node.op == "multiply" for node in graph.nodes)
    assert 0 < left < 40
    assert (40 - left) * 16e6 <= 2**28


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


def test_local_response_normalization_is_one_node():
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


def test_batch_norm_of_tokens_is_part_of_the_product():
    net = Net(1, 9, 16)
    product = net.op("MatMul", "x", net.random(16, 32))
    flat = net.op("Reshape", product, net.const(np.array([9, 32])))
    numbers = [net.random(32), net.random(32), net.random(32), net.const(np.ones(32, "float32"))]
    tokens = net.op(
        "Reshape", net.op("BatchNormalization", flat, *numbers), net.const(np.array([1, 9, 32]))
    )
    result = net.op("Add", net.op("HardSwish", tokens), net.input("r", 1, 9, 32))
    model = net.model(result)
    (dense,) = prepared(model).nodes
    assert [step.kind for step in dense.attrs["epilogue"]] == ["bias", "hardswish", "add"]
    check(model)
