"""Output shapes of sliding windows and of Resize, in which onnx deviates from the runtimes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.limits import MAX_DIMENSION
from tvmconv.frontend.recurrent import RECURRENT, infer_recurrent
from tvmconv.frontend.signals import stft_outputs
from tvmconv.frontend.tensors import check_shape
from tvmconv.frontend.windows import conv_transpose_window, conv_window, pool_window

RESIZING = ("Resize", "Upsample")
_POOLS = ("AveragePool", "LpPool", "MaxPool")
_CONVOLUTIONS = ("Conv", "ConvInteger", "ConvTranspose", "DeformConv")


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


def known_outputs(
    graph: OnnxGraph, node: OnnxNode, operands: Mapping[str, Array]
) -> list[TensorInfo] | None:
    """The outputs of operators for which onnx's inference is not used, or ``None`` for others."""
    if node.op in RECURRENT:
        return infer_recurrent(graph, node)
    data = graph.types[node.inputs[0]]
    if node.op == "Transpose" and not data.shape and not node.attrs.get("perm"):
        # onnx does not infer it before operator set 13
        return [replace(data, name=node.outputs[0])]
    if node.op == "BatchNormalization" and node.opset < 14 and any(node.outputs[1:]):
        return _batch_statistics(node, data)
    return (
        gathered_output(graph, node)
        or unpooled_output(graph, node, operands)
        or window_outputs(graph, node)
    )


def _batch_statistics(node: OnnxNode, data: TensorInfo) -> list[TensorInfo]:
    """A BatchNormalization with statistics, of which onnx infers the first result only."""
    if len(data.shape) < 2:
        raise node.error("it needs five inputs, the first of rank 2 or more")
    shapes = [data.shape, *[data.shape[1:2]] * (len(node.outputs) - 1)]
    named = zip(node.outputs, shapes, strict=True)
    return [TensorInfo(name, shape, data.dtype) for name, shape in named if name]


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
    place = 3 if node.op == "DeformConv" else 2
    has_bias = node.input(place) and node.op != "ConvInteger"
    bias = graph.shape(node.inputs[place]) if has_bias else None
    if node.op != "ConvTranspose":
        window, channels = conv_window(node, data, weight, bias), weight[0]
    else:
        window = conv_transpose_window(node, data, weight, bias)
        channels = weight[1] * window.groups
    return _window_outputs(graph, node, channels, window.output)


def gathered_output(graph: OnnxGraph, node: OnnxNode) -> list[TensorInfo] | None:
    """The output of GatherND; ``None`` for other operators or operands that do not fit.

    onnx does not infer a single row of one tuple of indices.
    """
    if node.op != "GatherND" or not node.input(1):
        return None
    data, index = (graph.shape(name) for name in node.inputs[:2])
    batch_dims = int(node.attrs.get("batch_dims", 0))
    if not index or not 0 <= batch_dims < len(index) or batch_dims + index[-1] > len(data):
        return None
    shape = (*index[:-1], *data[batch_dims + index[-1] :])
    info = TensorInfo(node.outputs[0], shape, graph.types[node.inputs[0]].dtype)
    check_shape(shape, info.dtype, f"node {node.name!r} ({node.op}): output {info.name!r}")
    return [info]


def unpooled_output(
    graph: OnnxGraph, node: OnnxNode, operands: Mapping[str, Array]
) -> list[TensorInfo] | None:
    """The output of MaxUnpool, ``None`` for other operators or an unknown ``output_shape``."""
    if node.op != "MaxUnpool":
        return None
    data = graph.types[node.inputs[0]]
    if node.input(1) and graph.shape(node.inputs[1]) != data.shape:
        raise node.misfit(
            f"indices of shape {graph.shape(node.inputs[1])} do not fit data of shape {data.shape}"
        )
    shape = unpooled_shape(node, data.shape)
    if node.input(2):
        given = operands.get(node.inputs[2])
        if given is None or given.size != len(shape):
            return None
        shape = tuple(int(size) for size in given.reshape(-1))
    check_shape(shape, data.dtype, f"node {node.name!r} ({node.op}): output {node.outputs[0]!r}")
    return [TensorInfo(node.outputs[0], shape, data.dtype)]


def unpooled_shape(node: OnnxNode, data: tuple[int, ...]) -> tuple[int, ...]:
    """The shape whose elements the indices of a MaxUnpool count."""
    rank = len(data) - 2
    kernel = node.ints("kernel_shape", ())
    strides = node.ints("strides", (1,) * rank)
    pads = node.ints("pads", (0,) * (2 * rank))
    lengths = len(kernel), len(strides), len(pads)
    if rank < 1 or lengths != (rank, rank, 2 * rank):
        raise node.error(
            f"kernel_shape={kernel}, strides={strides} and pads={pads} do not fit rank {len(data)}"
        )
    plane = tuple(
        (n - 1) * s - pads[i] - pads[rank + i] + k
        for i, (n, s, k) in enumerate(zip(data[2:], strides, kernel, strict=True))
    )
    if min(*strides, *kernel, *pads, 1) < 0 or min(plane) < 0:
        raise node.error(f"its window makes the plane {plane}")
    return (*data[:2], *plane)


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
