"""Whether a model computes with quantized integers."""

from __future__ import annotations

import os
from pathlib import Path


def is_quantized(model: str | os.PathLike[str]) -> bool:
    """Whether an ONNX file holds operators that quantize."""
    import onnx

    graph = onnx.load(Path(model), load_external_data=False).graph
    return any(
        "Quantize" in node.op_type or "QLinear" in node.op_type or node.op_type.endswith("Integer")
        for node in graph.node
    )
