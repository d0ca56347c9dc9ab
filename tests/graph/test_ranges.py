"""Ranges of values, and the chains that stay in blocks because of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.graph.network import Net, check, planned
from tvmconv.graph.ir import Node, Value, constant, make_node
from tvmconv.graph.ranges import UNKNOWN, value_range
from tvmconv.graph.rewrite.fold import evaluate

UNARY = ("nn.relu", "clip", "sigmoid", "hardsigmoid", "tanh", "erf", "abs", "negative")
UNARY += ("exp", "log")
BINARY = ("add", "subtract", "maximum", "minimum")


def computed(node: Node, parts: list[np.ndarray]) -> np.ndarray:
    """A node in float64."""
    if node.op == "clip":
        return np.minimum(np.maximum(parts[0], node.attrs["low"]), node.attrs["high"])
    if node.op == "hardsigmoid":
        return np.clip(node.attrs["alpha"] * parts[0] + node.attrs["beta"], 0, 1)
    if node.op == "erf":
        # as steep and as bounded
        return np.tanh(parts[0])
    known = make_node(node.op, [constant(part) for part in parts], parts[0].shape)
    result = evaluate(known)
    assert result is not None
    return np.asarray(result)


@settings(max_examples=200)
@given(data=st.data())
def test_every_element_is_in_the_range(data: st.DataObject) -> None:
    source = Value((5,), "float32", "x")
    numbers = np.array([-50.0, -1.5, 0.0, 0.25, 60.0])
    values: dict[Value, np.ndarray] = {source: numbers}
    for _ in range(data.draw(st.integers(1, 6))):
        op = data.draw(st.sampled_from(UNARY + BINARY))
        args = [data.draw(st.sampled_from(list(values)))]
        if op in BINARY:
            bound = constant(np.float32(data.draw(st.sampled_from([-2.0, 0.0, 0.5, 1.0]))))
            values[bound] = np.full(5, bound.data)
            args.append(data.draw(st.sampled_from([bound, args[0]])))
        attrs = {"low": -1.0, "high": 0.5} if op == "clip" else {"alpha": 0.3, "beta": 0.25}
        node = make_node(op, args, (5,), attrs=attrs)
        with np.errstate(all="ignore"):
            values[node.output] = computed(node, [values[arg] for arg in args])
    for value, elements in values.items():
        low, high = value_range(value)
        finite = elements[np.isfinite(elements)]
        assert np.all((finite >= low - 1e-12) & (finite <= high + 1e-12)), (
            value.producer,
            low,
            high,
        )


def test_bounded_operators_have_bounds() -> None:
    x = Value((4,), "float32", "x")
    assert value_range(x) == UNKNOWN
    distance = make_node("negative", [make_node("abs", [x], (4,)).output], (4,))
    power = make_node("exp", [distance.output], (4,))
    assert value_range(power.output) == (0, 1)
    total = make_node("add", [constant(np.float32(1)), power.output], (4,))
    assert value_range(total.output) == (1, 2)
    assert value_range(make_node("log", [total.output], (4,)).output) == (0, np.log(2))
    # zeros fill the last block of a vector
    assert value_range(constant(np.array([2.0, 3.0]))) == (0, 3)


def mish(net: Net, x: str) -> str:
    return str(net.op("Mul", x, net.op("Tanh", net.op("Softplus", x))))


@pytest.mark.parametrize(
    ("chain", "stays"),
    [
        (mish, True),
        (lambda net, y: net.op("Elu", y), True),
        (lambda net, y: net.op("Selu", y), True),
        (lambda net, y: net.op("Softplus", y), True),
        (lambda net, y: net.op("Softsign", y), True),
        # zeros in surplus lanes, or an infinity of a finite number
        (lambda net, y: net.op("Log", net.op("Abs", y)), False),
        (lambda net, y: net.op("Exp", y), False),
        (lambda net, y: net.op("Div", y, net.op("Abs", y)), False),
    ],
)
def test_curved_chains_stay_in_blocks(chain: Callable[[Net, str], str], stays: bool) -> None:
    """20 channels are not whole blocks."""
    net = Net(1, 16, 6, 6)
    graph, plan = planned(net.model(net.conv(chain(net, net.conv("x", 16, 20)), 20, 16)))
    middle = graph.nodes[1:-1]
    assert middle
    assert all(node in plan.blocked for node in middle) == stays


def test_surplus_lanes_of_curved_chains_do_no_harm() -> None:
    """Largest arguments, results without NaN, and one kernel for each chain."""
    net = Net(1, 16, 6, 6)
    y = net.conv("x", 16, 20, 1)
    chains: list[Callable[[Net, str], str]] = [
        mish,
        lambda net, y: net.op("Elu", y, alpha=2.0),
        lambda net, y: net.op("Softsign", net.op("Mul", y, net.const(np.float32(1e4)))),
        lambda net, y: net.op("Softplus", y),
    ]
    for chain in chains:
        y = net.conv(chain(net, y), 20, 20, 1)
    compiled = check(net.model(y))
    operators = [call.operator for call in compiled.manifest.calls]
    assert operators.count("conv2d") == 5
    assert len(operators) == 5 + len(chains) + 2
