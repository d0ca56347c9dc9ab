"""Moves of whole rows that become one gather."""

from __future__ import annotations

import numpy as np

from tests.graph.network import Net, check, prepared
from tvmconv.graph.rewrite.row_gathers import PICK


def shifted(net: Net, x: str, by: int, axis: int) -> str:
    """A cyclic shift along an axis of 14 elements, as exporters write ``torch.roll``."""
    axes = net.const(np.array([axis]))

    def part(begin: int, end: int) -> str:
        return net.op("Slice", x, net.const(np.array([begin])), net.const(np.array([end])), axes)

    return net.op("Concat", part(by, 14), part(0, by), axis=axis)


def windows(net: Net, x: str, width: int) -> str:
    """The shifted windows of 7x7 of an image of 14x14."""
    whole = net.op("Reshape", x, net.const(np.array([1, 14, 14, width])))
    whole = shifted(net, shifted(net, whole, 3, 1), 3, 2)
    parts = net.op("Reshape", whole, net.const(np.array([1, 2, 7, 2, 7, width])))
    parts = net.op("Transpose", parts, perm=[0, 1, 3, 2, 4, 5])
    return net.op("Reshape", parts, net.const(np.array([4, 49, width])))


def image(net: Net, x: str, width: int) -> str:
    """The inverse of :func:`windows`."""
    parts = net.op("Reshape", x, net.const(np.array([1, 2, 2, 7, 7, width])))
    parts = net.op("Transpose", parts, perm=[0, 1, 3, 2, 4, 5])
    whole = net.op("Reshape", parts, net.const(np.array([1, 14, 14, width])))
    whole = shifted(net, shifted(net, whole, 11, 1), 11, 2)
    return net.op("Reshape", whole, net.const(np.array([1, 196, width])))


def test_shifted_windows_are_one_gather():
    net = Net(1, 196, 32)
    first = net.op("MatMul", "x", net.random(32, 32, scale=0.2))
    second = net.op("MatMul", windows(net, first, 32), net.random(32, 48, scale=0.2))
    model = net.model(net.op("Add", image(net, second, 48), net.random(196, 48)), second)
    operators = [node.op for node in prepared(model).nodes]
    assert operators.count(PICK) == 2
    assert not {"strided_slice", "concat", "permute_dims"} & set(operators)
    check(model)


def test_other_moves_stay():
    net = Net(1, 196, 32)
    first = net.op("MatMul", "x", net.random(32, 32, scale=0.2))
    # rows of another tensor, and a transposition of the channels
    other = net.op("Reshape", net.input("o", 1, 196, 32), net.const(np.array([1, 14, 14, 32])))
    whole = net.op("Reshape", first, net.const(np.array([1, 14, 14, 32])))
    joined = net.op("Concat", shifted(net, whole, 3, 1), other, axis=1)
    swapped = net.op("Transpose", shifted(net, whole, 2, 2), perm=[0, 3, 1, 2])
    model = net.model(joined, swapped)
    operators = [node.op for node in prepared(model).nodes]
    assert operators.count("concat") >= 1 and "permute_dims" in operators
    check(model)
