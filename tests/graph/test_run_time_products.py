"""Products of two run-time matrices whose last tiles are smaller, in the shapes of attention."""

from __future__ import annotations

import pytest

from tests.graph.network import Net, check


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_odd_sizes_are_right(threads: int):
    net = Net(1, 2, 49, 20)
    keys = net.op("Transpose", net.input("k", 1, 33, 2, 20), perm=[0, 2, 3, 1])
    scores = net.op("Add", net.op("MatMul", "x", keys), net.input("mask", 1, 1, 49, 33))
    values = net.op("Transpose", net.input("v", 1, 33, 2, 80), perm=[0, 2, 1, 3])
    mixed = net.op("Transpose", net.op("MatMul", scores, values), perm=[0, 2, 1, 3])
    gated = net.op("Sigmoid", net.op("MatMul", "x", net.input("w", 20, 37)))
    check(net.model(mixed, gated), threads=threads)


def test_rows_that_share_cache_sets_are_copied():
    net = Net(1, 33, 16, 64)
    rows = net.op("Transpose", "x", perm=[0, 2, 1, 3])
    keys = net.op("Transpose", net.input("k", 1, 33, 16, 64), perm=[0, 2, 3, 1])
    check(net.model(net.op("MatMul", rows, keys)))
