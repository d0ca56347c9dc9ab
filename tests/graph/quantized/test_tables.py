"""Functions of one 8-bit tensor as tables: which, and that values are the float chain's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import tvmconv
from tests.graph.network import AVX512, other_ops, prepared
from tests.graph.quantised_net import QuantisedNet, small_input, unoptimised
from tvmconv.graph.rewrite import normalize


def activations(dtype: Any = np.uint8) -> onnx.ModelProto:
    """Every output is another function of one tensor, which has most 8-bit values."""
    net = QuantisedNet(1, 16, 16, 16, seed=21, dtype=dtype)
    a = net.rounded("x", scale=0.05, zero=128 if dtype is np.uint8 else 3)
    gate = net.rounded(net.op("Sigmoid", a))
    silu = net.rounded(net.op("Mul", a, gate))
    affine = net.op("Mul", a, net.const(np.float32(0.3)))
    affine = net.op("Add", affine, net.const(np.float32(0.7)))
    return net.model(
        silu,
        net.rounded(net.op("Tanh", a), scale=0.01),
        net.rounded(net.op("HardSwish", a)),
        net.rounded(net.op("LeakyRelu", a, alpha=0.1)),
        net.rounded(affine),
        # with another scale alone, and from a table
        net.rounded(net.op("Tanh", silu)),
    )


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
def test_tables_hold_the_values_of_the_float_chain(dtype: Any, monkeypatch: pytest.MonkeyPatch):
    model = activations(dtype)
    feeds = small_input(model)
    built = tvmconv.build(model, threads=1)
    operators = [call.operator for call in built.calls]
    assert sorted(operators) == sorted(["quantize", *["lookup", "dequantize"] * 6])
    actual = built.run(feeds)
    monkeypatch.setattr(normalize, "tabulate", lambda _graph, _machine: None)
    chains = tvmconv.build(model, threads=1)
    assert "lookup" not in [call.operator for call in chains.calls]
    expected = chains.run(feeds)
    for output, other in zip(model.graph.output, unoptimised(model, feeds), strict=True):
        np.testing.assert_array_equal(actual[output.name], expected[output.name])
        np.testing.assert_array_equal(actual[output.name], other)
        assert len(np.unique(other)) > 20


def test_tables_are_made_for_a_processor_that_is_not_here():
    graph = prepared(activations(), AVX512)
    assert other_ops(graph).count("lookup") == 6


def test_products_of_two_tensors_have_none():
    """Nor has a factor for each channel."""
    net = QuantisedNet(1, 16, 8, 8, seed=22)
    a = net.rounded("x")
    mean = net.rounded(net.op("GlobalAveragePool", a))
    gated = net.rounded(net.op("Mul", a, net.rounded(net.op("Sigmoid", mean))))
    factors = net.generator.uniform(0.5, 1.5, (16, 1, 1)).astype(np.float32)
    scaled = net.rounded(net.op("Mul", gated, net.const(factors)))
    graph = prepared(net.model(scaled))
    assert other_ops(graph).count("lookup") == 1
    model = net.model(scaled)
    feeds = small_input(model)
    (expected,) = unoptimised(model, feeds)
    (actual,) = tvmconv.build(model, threads=1).run(feeds).values()
    np.testing.assert_array_equal(actual, expected)
