"""Products of two operands computed at run time, in every form that exporters write."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import tvmconv
from tests.frontend.onnx_runner import make_model

_CASES = [
    # shapes of the operands before their transposes, the transposes
    ((3, 21, 32), (3, 19, 32), None, (0, 2, 1)),
    ((1, 21, 2, 32), (1, 37, 2, 32), (0, 2, 1, 3), (0, 2, 3, 1)),
    ((20, 33), (20, 40), (1, 0), None),
    ((30, 33), (40, 30), (1, 0), (1, 0)),
    ((4, 1, 64), (4, 77, 64), None, (0, 2, 1)),
    ((4, 3, 70), (4, 70, 300), None, None),
    ((1, 300), (200, 300), None, (1, 0)),
    ((120, 130), (130, 1), None, None),
    ((1, 64), (64, 1000), None, None),
    ((90,), (90, 50), None, None),
    ((70, 90), (90,), None, None),
    ((2, 1, 40, 36), (3, 36, 50), None, None),
    ((64, 1), (1, 70), None, None),
    ((6, 20, 100), (6, 23, 100), None, (0, 2, 1)),
]


def built(left, right, *orders) -> onnx.ModelProto:
    nodes, names = [], ["a", "b"]
    for index, order in enumerate(orders):
        if order is not None:
            nodes.append(helper.make_node("Transpose", [names[index]], [f"t{index}"], perm=order))
            names[index] = f"t{index}"
    nodes.append(helper.make_node("MatMul", names, ["p"]))
    nodes.append(helper.make_node("Sigmoid", ["p"], ["y"]))
    return make_model(nodes, {"a": left, "b": right}, ["y"])


@pytest.mark.parametrize("case", _CASES, ids=str)
def test_product_is_right(case):
    left, right, *orders = case
    generator = np.random.default_rng(3)
    a, b = (generator.standard_normal(shape, np.float32) for shape in (left, right))
    operands = [
        x.astype(np.float64).transpose(order) if order else x.astype(np.float64)
        for x, order in zip((a, b), orders, strict=True)
    ]
    expected = 1 / (1 + np.exp(-(operands[0] @ operands[1])))
    model = tvmconv.build(built(left, right, *orders), threads=2)
    found = np.asarray(model.run({"a": a, "b": b})["y"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-6)
    assert not any(call.operator == "permute_dims" for call in model.calls)
