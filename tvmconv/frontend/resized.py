"""Output sizes of Resize and Upsample by scales."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.limits import MAX_DIMENSION
from tvmconv.frontend.tensors import check_shape

RESIZING = ("Resize", "Upsample")


def with_resized_shape(
    node: OnnxNode, inferred: TensorInfo, data: TensorInfo, operands: Mapping[str, Array]
) -> TensorInfo:
    """The output of a Resize or Upsample with the sizes that onnxruntime computes.

    The specification says ``floor(size * scale)`` and leaves open in which precision. onnx
    multiplies exactly: 6 elements by float32(7/6) give 6. onnxruntime and torch multiply in
    float32, which gives the 7 that the exporter meant.
    """
    scales = _scales(node, operands)
    rank = len(data.shape)
    axes = [int(axis) % rank for axis in node.ints("axes", range(rank))]
    if scales is None or len(scales) != len(axes):
        return inferred
    shape = list(inferred.shape)
    for axis, scale in zip(axes, scales, strict=True):
        size = np.floor(np.float32(data.shape[axis]) * np.float32(scale))
        if 0 <= size <= MAX_DIMENSION:
            shape[axis] = int(size)
    where = f"node {node.name!r} ({node.op}): output {inferred.name!r}"
    check_shape(tuple(shape), inferred.dtype, where)
    return replace(inferred, shape=tuple(shape))


def _scales(node: OnnxNode, operands: Mapping[str, Array]) -> Array | None:
    """The constant scales; ``None`` where the node has sizes instead, or no constants."""
    if node.op == "Upsample" and node.opset < 9:
        scales = node.attrs.get("scales")
        return None if scales is None else np.asarray(scales, np.float32)
    index = 2 if node.op == "Resize" and node.opset >= 11 else 1
    found = operands.get(node.input(index))
    return found.reshape(-1) if found is not None and found.size else None
