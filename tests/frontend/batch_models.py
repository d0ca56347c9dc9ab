"""Small networks whose inputs have images along axis 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node


def made(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, list[Any]],
    weights: dict[str, np.ndarray] | None = None,
    outputs: Sequence[str] = ("y",),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "batches",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
