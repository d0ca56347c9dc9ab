"""Output shapes of sliding windows and of Resize, in which onnx deviates from the runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.limits import MAX_DIMENSION
from tvmconv.frontend.signals import stft_outputs
from tvmconv.frontend.tensors import check_shape
from tvmconv.frontend.windows import conv_transpose_window, conv_window, pool_window

RESIZING = ("Resize", "Upsample")
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_CONVOLUTIONS = ("Conv", "ConvInteger", "ConvTranspose")


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


def window_outputs(graph: OnnxGraph, node: OnnxNode) -> list[TensorInfo] | None:
    """Check an operator of sliding windows or frames; its outputs, or ``None`` for other operators.

    onnx's inference is not used. In ``ceil_mode``, it keeps windows that start after the input,
    which the operator's definition drops.
    """
    if node.op == "STFT":
        return stft_outputs(graph, node)
    if node.op not in (*_CONVOLUTIONS, *_POOLS):
        return None
    low = 1 if node.op in _POOLS else 2
    if not all(map(node.input, range(low))):
        raise node.error(f"it needs {low} inputs")
    data = graph.shape(node.inputs[0])
    if node.op in _POOLS:
        window = pool_window(node, data)
        return _window_outputs(graph, node, data[1], window.output)
    weight = graph.shape(node.inputs[1])
    has_bias = node.input(2) and node.op != "ConvInteger"
    bias = graph.shape(node.inputs[2]) if has_bias else None
    if node.op != "ConvTranspose":
        window, channels = conv_window(node, data, weight, bias), weight[0]
    else:
        window = conv_transpose_window(node, data, weight, bias)
        channels = weight[1] * window.groups
    return _window_outputs(graph, node, channels, window.output)


def _window_outputs(
    graph: OnnxGraph, node: OnnxNode, channels: int, plane: tuple[int, ...]
) -> list[TensorInfo]:
    data = graph.types[node.inputs[0]]
    shape = (data.shape[0], channels, *plane)
    infos = []
    first = "int32" if node.op == "ConvInteger" else data.dtype
    for name, dtype in zip(node.outputs, (first, "int64"), strict=False):
        if name:
            check_shape(shape, dtype, f"node {node.name!r} ({node.op}): output {name!r}")
            infos.append(TensorInfo(name, shape, dtype))
    return infos
