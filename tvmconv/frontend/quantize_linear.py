"""Checks of QuantizeLinear and DequantizeLinear, and what they make.

onnx's own inference looks neither at the shapes of scales nor at their values.
"""

from __future__ import annotations

import warnings
from math import prod

import numpy as np

from tvmconv.core.stored_types import SMALL_INTEGERS, STORED
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.tensors import element_type

LINEAR = ("DequantizeLinear", "QuantizeLinear")
# the first operator set with all that com.microsoft's QuantizeLinear and DequantizeLinear know:
# axes (13), 16-bit types (21); nodes that the reader makes are of it
LINEAR_OPSET = 21
WIDE = ("int16", "uint16")
_INTEGERS = ("int8", "uint8", *WIDE, *SMALL_INTEGERS)
_SHORT = tuple(name for name in STORED if name.startswith("float"))  # 8 bits and fewer
_FLOATS = ("float16", "bfloat16", "float32")


def infer_linear(graph: OnnxGraph, node: OnnxNode) -> list[TensorInfo]:
    """Check a QuantizeLinear or DequantizeLinear and return its output.

    Raises ``ModelError`` if a scale has a wrong shape or value, or the element type is not
    supported. The zero point must fit scale and tensor.
    """
    if len(node.inputs) < 2 or not node.input(1):
        raise node.error("it has no scale")
    data, scale = graph.types[node.inputs[0]], graph.types[node.inputs[1]]
    _check_shape(node, data.shape, scale.shape)
    check_scale(node, scale, graph.constants.get(scale.name))
    zero_point = graph.types.get(node.input(2))
    if zero_point is not None and _squeezed(zero_point.shape) != _squeezed(scale.shape):
        raise node.error(
            f"zero point {zero_point.name!r} has shape {zero_point.shape}, but scale "
            f"{scale.name!r} has {scale.shape}"
        )
    if node.op == "DequantizeLinear":
        _check_dequantized(graph, node, data, zero_point)
        dtype = _named_type(node, "output_dtype") or scale.dtype
        allowed: tuple[str, ...] = _FLOATS
    else:
        dtype = quantized_type(node, None if zero_point is None else zero_point.dtype)
        allowed = (*_INTEGERS, *_SHORT)
        if division_type(node, scale.dtype) not in _FLOATS:
            raise node.error("precision must be float32, float16 or bfloat16")
    if dtype not in allowed:
        raise node.error(
            f"its output is {dtype}, which is not supported (it may be {', '.join(allowed)})",
            "quantize the model to 8 bits",
        )
    return [TensorInfo(node.outputs[0], data.shape, dtype)]


def check_scale(node: OnnxNode, scale: TensorInfo, values: Array | None) -> None:
    """Refuse a constant scale that is not a positive number."""
    if scale.dtype not in _FLOATS:
        raise node.error(f"scale {scale.name!r} is {scale.dtype}, not float32, float16 or bfloat16")
    if values is None:
        return
    known = values.astype(np.float32)
    wrong = known[~(np.isfinite(known) & (known > 0))]
    if wrong.size:
        raise node.error(
            f"scale {scale.name!r} holds {wrong.reshape(-1)[0]}; scales must be finite and "
            "above zero",
            "quantize the model again",
        )


def channel_axis(node: OnnxNode, data: tuple[int, ...], scale: tuple[int, ...]) -> int | None:
    """The axis along which scales vary, not negative; None if there is one scale.

    ``data`` and ``scale`` are shapes.
    """
    if prod(scale) == 1 and len(scale) <= 1:
        return None
    return int(node.attrs.get("axis", 1)) % max(len(data), 1)


def block_size(node: OnnxNode) -> int:
    """Elements along the axis that share a scale; 0 without blocks."""
    return int(node.attrs.get("block_size", 0))


def quantized_type(node: OnnxNode, zero_point: str | None) -> str:
    """Type of a QuantizeLinear's output; ``zero_point`` is the type of its zero point, if any."""
    named = _named_type(node, "output_dtype")
    if zero_point is not None and named not in ("", zero_point):
        raise node.error(
            f"output_dtype is {named}, but zero point {node.input(2)!r} is {zero_point}"
        )
    return zero_point or named or "uint8"


def division_type(node: OnnxNode, scale: str) -> str:
    """Type in which a QuantizeLinear divides; ``scale`` is the type of its scale."""
    return _named_type(node, "precision") or scale


def report_wide(graph: OnnxGraph) -> None:
    """Warn of INT16 tensors, whose layers run in FP32."""
    nodes = [
        node
        for node in graph.nodes
        if (node.op == "QuantizeLinear" and graph.types[node.outputs[0]].dtype in WIDE)
        or (node.op == "DequantizeLinear" and graph.types[node.inputs[0]].dtype in WIDE)
    ]
    if nodes:
        warnings.warn(
            f"{len(nodes)} nodes quantize to or from 16 bits, the first is {nodes[0].name!r} "
            f"({nodes[0].op}). Layers between them are computed in float32. "
            "Quantize the model to 8 bits for integer kernels.",
            stacklevel=2,
        )


def _check_shape(node: OnnxNode, data: tuple[int, ...], scale: tuple[int, ...]) -> None:
    what = f"scale {node.inputs[1]!r} has shape {scale}"
    rank = len(data)
    size = block_size(node)
    if size < 0:
        raise node.error(f"block_size={size} must not be negative")
    axis = channel_axis(node, data, scale)
    if axis is None:
        return
    given = int(node.attrs.get("axis", 1))
    if not -rank <= given < rank:
        raise node.error(f"axis={given} is outside its input's rank {rank}, and {what}")
    if size:
        blocks = tuple(-(-n // size) if i == axis else n for i, n in enumerate(data))
        if scale != blocks:
            raise node.error(f"{what}; blocks of {size} along axis {axis} of {data} need {blocks}")
        return
    if len(scale) != 1:
        raise node.error(f"{what}; its rank must be 0 or 1")
    if scale[0] != data[axis]:
        raise node.error(f"{what}, but axis {axis} of its input {data} has {data[axis]} channels")


def _check_dequantized(
    graph: OnnxGraph, node: OnnxNode, data: TensorInfo, zero_point: TensorInfo | None
) -> None:
    if data.dtype not in (*_INTEGERS, *_SHORT, "int32"):
        raise node.error(
            f"its input is {data.dtype}, which is not supported",
            "quantize the model to 8 bits",
        )
    if data.dtype != "int32":
        return
    values = None if zero_point is None else graph.constants.get(zero_point.name)
    if zero_point is not None and (values is None or values.any()):
        raise node.error("an int32 tensor has no zero point but 0")


def _named_type(node: OnnxNode, attribute: str) -> str:
    code = node.attrs.get(attribute, 0)
    if not isinstance(code, int):
        raise node.error(f"{attribute}={code!r} must be an integer")
    return element_type(code, f"node {node.name!r} ({node.op}): {attribute}") if code else ""


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return () if shape == (1,) else shape
