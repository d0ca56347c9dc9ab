"""The FP32 remainder, compared with NumPy's ``fmod`` bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import tvmconv
from tests.operators.harness import Built, each_machine, normal
from tvmconv.operators.remainder import remainder

SPECIAL = np.array(
    [0.0, 1e-45, 1e-38, 0.1, 0.5, 1.0, 1.5, 3.0, 2.0**24, 2.0**28, 1e10, 3e38, np.inf, np.nan],
    np.float32,
)


def check(a, b, machine):
    (result,) = Built(lambda x, y: remainder(x, y, machine.lanes), [a, b], machine)()
    with np.errstate(invalid="ignore"):
        wanted = np.fmod(a, b)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(result), ~numbers)
    same = result.view(np.int32)[numbers] == wanted.view(np.int32)[numbers]
    assert same.all()


@each_machine
def test_any_bits(machine):
    """Special values with each other, integers around multiples, and random bits."""
    generator = np.random.default_rng(0)
    values = np.concatenate([SPECIAL, -SPECIAL])
    special = np.meshgrid(values, values)
    integers = generator.integers(1, 1 << 24, (2, 4000)).astype(np.float32)
    integers[0, ::2] = integers[1, ::2] * generator.integers(1, 9, 2000)
    bits = generator.integers(0, 1 << 32, (2, 4000), np.uint32).view(np.float32)
    near = generator.standard_normal((2, 4001)).astype(np.float32)
    a, b = (
        np.concatenate([special[i].ravel(), integers[i], bits[i], near[i]]).astype(np.float32)
        for i in range(2)
    )
    check(a, b, machine)


@each_machine
@pytest.mark.parametrize("sizes", [(1, 1), (7, 7), (513, 1), (1, 40)], ids=str)
def test_lengths_and_single_operands(sizes, machine):
    generator = np.random.default_rng(1)
    a, b = (generator.standard_normal(size).astype(np.float32) for size in sizes)
    check(a * 5, b, machine)


def test_operands_of_other_shapes_are_repeated():
    """A constant row, and a run-time column that is the dividend."""
    x, row = normal(3, 1, 5), np.array([0.5, -1, 2, 0.1, 3], np.float32)
    nodes = [
        helper.make_node("Mod", ["x", "row"], ["rest"], fmod=1),
        helper.make_node("Mod", ["column", "rest"], ["y"], fmod=1),
    ]
    values = [helper.make_tensor_value_info(name, 1, shape)
              for name, shape in (("x", x.shape), ("column", (4, 1)), ("y", None))]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", values[:2], values[2:], [numpy_helper.from_array(row, "row")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    column = normal(4, 1, seed=1) * 9
    (y,) = tvmconv.build(model, threads=1).run({"x": x, "column": column})
    np.testing.assert_array_equal(y, np.fmod(column, np.fmod(x, row)))
