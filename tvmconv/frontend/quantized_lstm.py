"""DynamicQuantizeLSTM of com.microsoft as an LSTM whose weights are FP32.

onnxruntime also rounds the input and each hidden state to 8 bits. Here they stay FP32: the result
differs from onnxruntime's by the rounding of onnxruntime's activations, and is closer to
the float model's result.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.quantize_linear import check_scale

QUANTIZED_LSTM = "DynamicQuantizeLSTM"
# indices of W and R, each with its scale and zero point
_WEIGHTS = ((1, 8, 9), (2, 10, 11))
_EIGHT_BITS = ("int8", "uint8")


def as_lstm(graph: OnnxGraph, node: OnnxNode, fresh: Callable[[str], str]) -> OnnxNode:
    """The node as an LSTM; ``fresh`` makes unique names.

    Raises ``ModelError`` if weights, scales or zero points are not constant or do not fit.
    """
    inputs = [node.input(index) for index in range(8)]
    for weight, scale, zero_point in _WEIGHTS:
        values = _dequantized(graph, node, (weight, scale, zero_point))
        name = fresh(f"{node.inputs[weight]}.dequantized")
        # onnxruntime stores the transposed weights
        inputs[weight] = graph.add_constant(name, np.ascontiguousarray(values.transpose(0, 2, 1)))
    return OnnxNode(node.name, "LSTM", tuple(inputs), node.outputs, node.attrs, node.opset)


def _dequantized(graph: OnnxGraph, node: OnnxNode, places: tuple[int, int, int]) -> Array:
    """Weights of shape ``(directions, inputs, outputs)`` in FP32."""
    weight, scale, zero = (_constant(graph, node, place) for place in places)
    if str(weight.dtype) not in _EIGHT_BITS or weight.ndim != 3:
        raise node.error(
            f"input {places[0]} is {weight.dtype} of shape {weight.shape}. Expected 8-bit integers "
            "of shape (directions, inputs, 4 * hidden_size)"
        )
    directions, _, outputs = weight.shape
    if scale.shape not in ((directions,), (directions, outputs)) or zero.shape != scale.shape:
        raise node.error(
            f"input {places[1]} (scale) has shape {scale.shape} and input {places[2]} (zero point) "
            f"{zero.shape}. Expected {(directions,)} or {(directions, outputs)} for both"
        )
    if zero.dtype != weight.dtype:
        raise node.error(
            f"input {places[2]} (zero point) is {zero.dtype}. Expected {weight.dtype}, as the "
            "weights"
        )
    check_scale(node, graph.types[node.inputs[places[1]]], scale)
    shape = (directions, 1, -1)
    difference = weight.astype(np.float32) - zero.astype(np.float32).reshape(shape)
    values: Array = difference * scale.astype(np.float32).reshape(shape)
    return values


def _constant(graph: OnnxGraph, node: OnnxNode, place: int) -> Array:
    name = node.input(place)
    if name not in graph.constants:
        raise node.error(
            f"input {place} is {'computed at run time' if name else 'missing'}. Expected a "
            "constant",
            "store it as a constant in the model",
        )
    return graph.constants[name]
