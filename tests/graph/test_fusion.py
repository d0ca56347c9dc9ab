"""Chains of any length are merged into functions of bounded size."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model, noise, run_reference
from tvmconv.frontend import read_model, to_relax
from tvmconv.graph.lower import LoweredGraph, lower
from tvmconv.machine import MACHINES

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


@pytest.mark.parametrize("first", CURVED)
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
