"""Compiled graphs against onnxruntime, one small network for each path through the passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.graph.network import Net, check

CASES: dict[str, Callable[[], object]] = {}


def case(function: Callable[[], object]) -> Callable[[], object]:
    CASES[function.__name__] = function
    return function


@case
def residual_blocks():
    net = Net(1, 3, 17, 19)
    stem = net.op("Relu", net.conv("x", 3, 24, strides=[2, 2]))
    y = net.op("Relu", net.conv(stem, 24, 24))
    y = net.op("Relu", net.op("Add", stem, net.conv(y, 24, 24)))
    short = net.conv(y, 24, 40, k=1, strides=[2, 2])
    y = net.op("Add", net.conv(y, 24, 40, strides=[2, 2]), short)
    return net.model(net.op("GlobalAveragePool", y))


@case
def outputs_of_every_kind():
    net = Net(1, 16, 9, 9)
    y = net.conv("x", 16, 20)
    z = net.op("Relu", y)
    return net.model(net.op("Identity", "x"), y, z, net.op("Add", z, z))


@case
def unaligned_concat_split_and_slice():
    net = Net(2, 8, 6, 6)
    a, b, c = net.conv("x", 8, 20), net.conv("x", 8, 5, k=1), net.conv("x", 8, 16)
    joined = net.op("Concat", a, b, c, axis=1)
    left, right = net.op("Split", joined, net.const(np.array([18, 23])), outputs=2, axis=1)
    part = net.op(
        "Slice",
        joined,
        *(net.const(np.array(v)) for v in ([3, 1], [26, 6], [1, 3], [1, 2])),
    )
    return net.model(net.conv(left, 18, 16), net.conv(right, 23, 16, k=1), net.conv(part, 23, 8))


@case
def squeeze_and_excitation():
    net = Net(2, 3, 8, 8)
    y = net.op("HardSwish", net.conv("x", 3, 24))
    gate = net.op("Relu", net.conv(net.op("GlobalAveragePool", y), 24, 6, k=1))
    gate = net.op("HardSigmoid", net.conv(gate, 6, 24, k=1), alpha=1 / 6, beta=0.5)
    y = net.op("Mul", gate, y)
    spatial = net.op("Sigmoid", net.conv(y, 24, 1))
    return net.model(net.conv(net.op("Mul", y, spatial), 24, 16))


@case
def pooling_resize_and_padding():
    net = Net(1, 16, 10, 11)
    y = net.op("Relu", net.conv("x", 16, 24))
    y = net.op("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    y = net.op("AveragePool", y, kernel_shape=[3, 3], pads=[1, 0, 1, 2], count_include_pad=1)
    scales = net.const(np.array([1, 1, 2, 2], np.float32))
    y = net.op("Resize", y, "", scales, mode="linear")
    y = net.op("Pad", y, net.const(np.array([0, 0, 1, 2, 0, 0, 0, 1])), mode="constant")
    y = net.op("PRelu", net.conv(y, 24, 20), net.random(20, 1, 1))
    return net.model(net.op("GlobalMaxPool", y))


@case
def shuffle_interleave_and_lrn():
    net = Net(1, 16, 6, 6)
    y = net.op("Reshape", net.conv("x", 16, 24), net.const(np.array([1, 3, 8, 6, 6])))
    y = net.op("Transpose", y, perm=[0, 2, 1, 3, 4])
    y = net.op("Reshape", y, net.const(np.array([1, 24, 6, 6])))
    y = net.op("LRN", net.conv(y, 24, 24, group=3), size=5, alpha=0.1, beta=0.75, bias=1.0)
    down = net.op("DepthToSpace", y, blocksize=2, mode="DCR")
    column = net.op("DepthToSpace", net.conv(y, 24, 40), blocksize=2, mode="CRD")
    return net.model(net.conv(down, 6, 8), net.conv(column, 10, 8))


@case
def fully_connected_after_flatten():
    net = Net(2, 3, 6, 6)
    y = net.op("Flatten", net.op("Relu", net.conv("x", 3, 20)))
    y = net.op("Relu", net.op("Gemm", y, net.random(20 * 36, 30, scale=0.1), net.random(30)))
    y = net.op("MatMul", y, net.random(30, 10))
    return net.model(net.op("Softmax", y, axis=1))


@case
def signals():
    net = Net(1, 16, 40)
    y = net.op("Conv", "x", net.random(24, 16, 3), net.random(24), pads=[1, 1], strides=[2])
    y = net.op("MaxPool", net.op("Relu", y), kernel_shape=[3], strides=[2])
    y = net.op("Add", y, net.op("Conv", y, net.random(24, 1, 5), pads=[2, 2], group=24))
    return net.model(net.op("Conv", y, net.random(10, 24, 1)))


@case
def groups():
    net = Net(1, 24, 7, 7)
    y = net.op("Relu", net.conv("x", 24, 24, group=24))
    y = net.conv(y, 24, 48, group=24, dilations=[2, 2], pads=[2, 1, 0, 2])
    return net.model(net.conv(y, 48, 20, group=4, k=1))


@case
def plain_operators_between():
    net = Net(1, 16, 6, 6)
    y = net.op("Softmax", net.conv("x", 16, 16), axis=1)
    y = net.op("Transpose", net.conv(y, 16, 6, k=1), perm=[0, 2, 3, 1])
    y = net.op("Reshape", y, net.const(np.array([1, 6, 6, 6])))
    return net.model(net.op("Exp", net.conv(y, 6, 4)), net.op("ReduceMean", y, axes=[1]))


@case
def gelu_and_broadcast_constants():
    net = Net(1, 16, 6, 6)
    y = net.op("Mul", net.conv("x", 16, 20), net.random(1, 1, 6, 1))
    y = net.op("Div", y, net.const(np.float32(1.5)))
    half = net.op("Mul", y, net.const(np.float32(0.5)))
    erf = net.op("Erf", net.op("Div", y, net.const(np.float32(2**0.5))))
    y = net.op("Mul", half, net.op("Add", erf, net.const(np.float32(1))))
    return net.model(net.conv(y, 20, 8))


@case
def numbers_of_a_vector():
    """Next to the loop of each mean are its scalar operations, in no loop."""
    net = Net(40)
    y = net.op("ReduceMean", "x", axes=[0], keepdims=0)
    return net.model(net.op("Relu", y), net.op("Cast", net.op("ArgMax", "x", keepdims=0), to=1))


@pytest.mark.parametrize("name", CASES)
def test_matches_onnxruntime(name: str):
    check(CASES[name]())


def test_matches_onnxruntime_on_avx2_and_two_threads():
    check(residual_blocks(), target="x86-64-v3", threads=2)


TRANSPOSED = [
    {"k": 4, "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"k": 3, "strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    {"k": 2, "strides": [3, 2]},
    {"k": 3, "strides": [1, 1], "pads": [1, 0, 2, 1]},
    {"k": 3, "strides": [2, 1], "dilations": [2, 1]},
    {"k": 2, "strides": [1, 1], "pads": [3, 3, 0, 0]},
    {"k": 3, "strides": [2, 2], "group": 2},
]


def test_transposed_convolutions():
    net = Net(1, 16, 7, 6)
    results = []
    for settings in TRANSPOSED:
        attrs = dict(settings)
        k, groups = attrs.pop("k"), attrs.get("group", 1)
        weight = net.random(16, 20 // groups, k, k, scale=0.1)
        y = net.op("ConvTranspose", "x", weight, net.random(20), **attrs)
        results.append(net.conv(net.op("Relu", y), 20, 4, k=1))
    check(net.model(*results))


def test_transposed_to_few_channels():
    net = Net(1, 16, 5, 5)
    y = net.op("ConvTranspose", "x", net.random(16, 3, 4, 4), strides=[2, 2], pads=[1] * 4)
    check(net.model(net.op("Tanh", y)))
