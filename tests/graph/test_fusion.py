"""Chains of any length are merged into functions of bounded size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import ir

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference
from tvmconv.frontend import read_model, to_relax
from tvmconv.graph.lower import LoweredGraph, lower
from tvmconv.machines.x86 import MACHINES

CURVED = ("Sigmoid", "Tanh", "Exp", "Erf", "Softplus")


def chain(operators: list[str]) -> onnx.ModelProto:
    nodes = [
        helper.make_node(operator, [f"v{index}"], [f"v{index + 1}"])
        for index, operator in enumerate(operators)
    ]
    return make_model(nodes, {"v0": (1, 40)}, [f"v{len(nodes)}"])


def lowered(model: onnx.ModelProto) -> LoweredGraph:
    return lower(to_relax(read_model(model)), MACHINES["x86-64-v3"])


@pytest.mark.parametrize("operators", [["Relu", "Abs"], ["Relu", "Sigmoid", "Tanh", "Exp"]])
def test_calls_grow_with_the_chain(operators: list[str]) -> None:
    counts = [len(lowered(chain(operators * (n // len(operators)))).calls) for n in (64, 128, 256)]
    # short functions, and no more of them than operators
    assert counts[0] >= 4
    assert counts[2] <= 256
    assert counts[1] - counts[0] <= counts[0] + 1
    assert counts[2] - counts[1] <= 2 * (counts[0] + 1)


@pytest.mark.parametrize(
    "first",
    ["Exp", *(pytest.param(name, marks=pytest.mark.slow) for name in CURVED[:2] + CURVED[3:])],
)
def test_every_pair_of_curved_operators_twice_in_a_row(first: str) -> None:
    x = noise(1, 40) / 8
    for second in (*CURVED, "LeakyRelu", "HardSwish", "Mish"):
        model = chain([first, second, first, second])
        model.opset_import[0].version = 18
        name = model.graph.output[0].name
        built = tvmconv.build(model, "x86-64-v3", threads=1, log="none").run({"v0": x})[name]
        wanted = run_reference(model, {"v0": x})[0]
        # each exponential multiplies the error of its argument
        np.testing.assert_allclose(built, wanted, rtol=1e-4, atol=1e-6, err_msg=second)


def test_short_chains_are_one_function() -> None:
    for operators in (["Sigmoid", "Relu", "Tanh"], ["Erf", "Exp"], ["Softplus"], ["Relu"] * 8):
        assert len(lowered(chain(operators)).calls) == 1


@pytest.mark.parametrize("count", [36, pytest.param(300, marks=pytest.mark.slow)])
def test_wide_concatenations_are_nested(count: int) -> None:
    feeds = {f"x{i}": noise(1, 2, 3, 3, seed=i) for i in range(count)}
    node = helper.make_node("Concat", list(feeds), ["y"], axis=1)
    model = make_model([node], dict.fromkeys(feeds, (1, 2, 3, 3)), ["y"])
    bindings = to_relax(read_model(model))["main"].body.blocks[0].bindings
    joined = [len(b.value.args[0].fields) for b in bindings if isinstance(b.value, ir.Call)]
    # one of 32 for each full group, one of the rest, and one that joins them
    assert len(joined) == count // 32 + 2
    assert max(joined) <= 32
    built = tvmconv.build(model, "x86-64-v3", threads=1, log="none").run(feeds)["y"]
    np.testing.assert_array_equal(built, np.concatenate(list(feeds.values()), axis=1))


@pytest.mark.parametrize("size", [31, 101, 1001])
def test_local_response_normalization_over_any_window(size: int) -> None:
    node = helper.make_node("LRN", ["x"], ["y"], size=size, alpha=0.5)
    model = make_model([node], {"x": (1, 24, 5, 5)}, ["y"])
    x = noise(1, 24, 5, 5)
    built = tvmconv.build(model, "x86-64-v3", threads=1, log="none").run({"x": x})["y"]
    wide = x.astype(np.float64)
    low = (size - 1) // 2
    windows = [
        (wide[:, max(0, c - low) : c + size - low] ** 2).sum(1, keepdims=True) for c in range(24)
    ]
    wanted = wide / (1 + 0.5 / size * np.concatenate(windows, 1)) ** 0.75
    np.testing.assert_allclose(built, wanted, rtol=1e-5, atol=1e-6)
