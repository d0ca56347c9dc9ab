"""Ranges of computed integers hold for every input, compared with onnx's reference."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tvmconv.frontend import read_model
from tvmconv.frontend.ranges import IndexRanges

NUMBERS = {"two": 2, "three": 3, "seven": 7, "minus": -4}
CHAINS = {
    "Mod": [("Mod", "x", "seven")],
    "Mod of a negative divisor": [("Mod", "x", "minus")],
    "Clip": [("Clip", "x", "minus", "three")],
    "quotient": [("Mod", "x", "seven"), ("Div", "", "two")],
    "negative": [("Mod", "x", "seven"), ("Sub", "", "seven")],
    "product": [("Clip", "x", "minus", "three"), ("Mul", "", "minus")],
    "extremes": [("Max", "x", "minus"), ("Min", "", "three")],
    "narrow": [("Mod", "x", "seven"), ("Mul", "", "seven"), ("Add", "", "minus")],
    "raw": [("Add", "x", "two")],
}
KNOWN = {
    "Mod": (0, 6), "Clip": (-4, 3), "quotient": (0, 3), "negative": (-7, -1),
    "product": (-12, 16), "narrow": (-4, 38),
}  # fmt: skip


@pytest.mark.parametrize("name", CHAINS)
def test_every_result_is_in_the_range(name: str) -> None:
    nodes, before = [], ""
    for index, (op, first, *others) in enumerate(CHAINS[name]):
        after = f"v{index}"
        nodes.append(helper.make_node(op, [first or before, *others], [after]))
        before = after
    graph = helper.make_graph(
        nodes,
        "range",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [64])],
        [helper.make_tensor_value_info(before, TensorProto.INT64, None)],
        [helper.make_tensor(n, TensorProto.INT64, [], [v]) for n, v in NUMBERS.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    found = IndexRanges(read_model(model).graph).of(before)
    assert found == KNOWN.get(name)
    if found is not None:
        x = np.random.default_rng(0).integers(-100, 100, 64)
        (result,) = ReferenceEvaluator(model).run(None, {"x": x})
        assert found[0] <= result.min() <= result.max() <= found[1]
