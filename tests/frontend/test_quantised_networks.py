"""Small networks by onnxruntime's quantization tool, layer for layer against onnxruntime."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmconv
from tests.frontend.quantised_models import image, quantised_network, with_all_outputs

CASES = list(
    product(
        ("QDQ", "QOperator"),
        (("QUInt8", "QInt8"), ("QInt8", "QInt8"), ("QUInt8", "QUInt8")),
        (False, True),
    )
)
DEFAULT = [
    ("QDQ", ("QUInt8", "QInt8"), True),
    ("QOperator", ("QInt8", "QInt8"), False),
]


def outputs_of_onnxruntime(model: onnx.ModelProto, x: np.ndarray) -> dict[str, np.ndarray]:
    """Every 8-bit value that a node computes, and the outputs, without graph passes."""
    wider = onnx.ModelProto()
    wider.CopyFrom(model)
    known = {output.name for output in model.graph.output}
    for node in model.graph.node:
        if node.op_type.startswith("Q") and node.output[0] not in known:
            wider.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        wider.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


@pytest.mark.parametrize(
    ("form", "types", "per_channel"),
    [case if case in DEFAULT else pytest.param(*case, marks=pytest.mark.slow) for case in CASES],
)
def test_every_value_is_within_a_step(
    form: str, types: tuple[str, str], per_channel: bool, tmp_path: Path
) -> None:
    model = quantised_network(tmp_path, form, *types, per_channel=per_channel)
    x = image(9)
    expected = outputs_of_onnxruntime(model, x)
    actual = tvmconv.build(with_all_outputs(model, expected)).run({"x": x})
    differing = total = 0
    for name, wanted in expected.items():
        found = actual[name]
        assert (wanted.dtype, wanted.shape) == (found.dtype, found.shape)
        if wanted.dtype == np.float32:
            # the last values are FP32 again
            np.testing.assert_allclose(found, wanted, atol=1 / 255)
            continue
        steps = np.abs(wanted.astype(int) - found.astype(int))
        assert steps.max() <= 1, name
        differing += np.count_nonzero(steps)
        total += steps.size
    # a sum in another order falls on the other side of a tie at times
    assert total > 15_000
    assert differing < total / 500
