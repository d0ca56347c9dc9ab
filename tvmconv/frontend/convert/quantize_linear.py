"""Quantization: conversion between real numbers and integers that represent them."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.convert.writer import RelaxWriter, constant, converts, dequantized
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.frontend.quantize_linear import block_size, channel_axis, division_type
from tvmconv.frontend.rounding import parameter
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr

op = relax.op
_LEVELS = 255  # between the smallest and the largest uint8


@converts("QuantizeLinear", attrs="axis block_size output_dtype precision saturate", inputs=2)
def quantize(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """saturate(round(x / scale) + zero point), with ties to even.

    The attribute ``saturate`` applies to 8-bit floating point only.
    """
    name, scale = node.inputs[:2]
    x, dtype = e.value(name), e.dtype(node.outputs[0])
    if division_type(node, e.dtype(scale)) == "float16":
        # FP32 has more than twice the digits of FP16, so the quotient is rounded as in FP16
        quotient = op.divide(_in(e, x, name, "float16"), _spread(e, node, scale, "float16"))
        wide = e.emit(op.astype(e.emit(quotient, "quotient"), "float32"), "wide")
        if _is_blocked(e, node):
            return _quantize_blocks(e, node, wide)
        zero_point = _parameter(e, node, 2, dtype)
        return op.quantize(wide, e.scalar(1), zero_point, _axis(e, node), dtype)
    x = _in(e, x, name, "float32")
    if _is_blocked(e, node):
        quotient = op.divide(x, _spread(e, node, scale, "float32"))
        return _quantize_blocks(e, node, e.emit(quotient, "quotient"))
    return op.quantize(
        x, _parameter(e, node, 1, "float32"), _parameter(e, node, 2, dtype), _axis(e, node), dtype
    )


def _quantize_blocks(e: RelaxWriter, node: OnnxNode, quotient: RelaxExpr) -> RelaxExpr:
    """The steps of a quantization after the division by scales of blocks."""
    dtype = e.dtype(node.outputs[0])
    if not node.input(2):
        return op.quantize(quotient, e.scalar(1), e.scalar(0, dtype), 0, dtype)
    limits = np.iinfo(np.dtype(dtype))
    shifted = op.add(op.round(quotient), _spread(e, node, node.inputs[2], "float32"))
    # rounded already
    return op.quantize(
        e.emit(op.clip(shifted, limits.min, limits.max), "shifted"),
        e.scalar(1), e.scalar(0, dtype), 0, dtype,
    )  # fmt: skip


@converts("DequantizeLinear", attrs="axis block_size output_dtype", inputs=2)
def dequantize(e: RelaxWriter, node: OnnxNode) -> RelaxExpr:
    """(x - zero point) * scale.

    Constants stay integers, for INT8 kernels.
    """
    name = node.inputs[0]
    if _is_blocked(e, node):
        centered = op.astype(e.value(name), "float32")
        if node.input(2):
            centered = op.subtract(centered, _spread(e, node, node.inputs[2], "float32"))
        scale = _spread(e, node, node.inputs[1], "float32")
        return op.multiply(e.emit(centered, "centred"), scale)
    values, zero_point = (_array(e, node, i) for i in (1, 2))
    axis, data = _axis(e, node), e.array(name)
    if data is not None and values is not None and zero_point is not None:
        known = QuantizedConstant(data, values, zero_point, axis)
        e.quantized[node.outputs[0]] = known
        return dequantized(known)
    return op.dequantize(
        e.value(name), _parameter(e, node, 1, "float32"),
        _parameter(e, node, 2, e.dtype(name)), axis,
    )  # fmt: skip


def _is_blocked(e: RelaxWriter, node: OnnxNode) -> bool:
    shape, scale = e.shape(node.inputs[0]), e.shape(node.inputs[1])
    return bool(block_size(node)) and channel_axis(node, shape, scale) is not None


def _axis(e: RelaxWriter, node: OnnxNode) -> int:
    """The axis of the channels; 0 for one scale."""
    return channel_axis(node, e.shape(node.inputs[0]), e.shape(node.inputs[1])) or 0


def _in(e: RelaxWriter, x: RelaxExpr, name: str, dtype: str) -> RelaxExpr:
    return x if e.dtype(name) == dtype else e.emit(op.astype(x, dtype), dtype)


def _array(e: RelaxWriter, node: OnnxNode, index: int) -> Array | None:
    """A constant scale or zero point, of shape () or (channels,); an absent zero point is 0."""
    name = node.input(index)
    if not name:
        integers = node.inputs[0] if node.op == "DequantizeLinear" else node.outputs[0]
        return np.zeros(e.shape(node.inputs[1]) if _is_vector(e, node) else (), e.dtype(integers))
    values = e.array(name)
    return values.reshape(()) if values is not None and not _is_vector(e, node) else values


def _is_vector(e: RelaxWriter, node: OnnxNode) -> bool:
    shape, scale = e.shape(node.inputs[0]), e.shape(node.inputs[1])
    return channel_axis(node, shape, scale) is not None


def _parameter(e: RelaxWriter, node: OnnxNode, index: int, dtype: str) -> RelaxExpr:
    """A scale or zero point in Relax's form, of shape () or (channels,)."""
    values = _array(e, node, index)
    if values is not None:
        return constant(values.astype(dtype))
    name = node.inputs[index]
    value = _in(e, e.value(name), name, dtype)
    if _is_vector(e, node) or not e.shape(name):
        return value
    return e.emit(op.reshape(value, ()), "scalar")


def _spread(e: RelaxWriter, node: OnnxNode, name: str, dtype: str) -> RelaxExpr:
    """Scales or zero points in a form that broadcasts to the data."""
    shape, values = e.shape(node.inputs[0]), e.array(name)
    if values is None:
        axis = channel_axis(node, shape, e.shape(name)) or 0
        repeated = e.emit(op.repeat(e.value(name), block_size(node), axis), "repeated")
        # the last block may be shorter
        each = op.strided_slice(repeated, [axis], [0], [shape[axis]])
        return _in(e, e.emit(each, "each"), name, dtype)
    e.reserve(node, 4 * int(np.prod(shape)))
    return constant(parameter(node, shape, values).astype(dtype))


@converts("DynamicQuantizeLinear")
def dynamic(e: RelaxWriter, node: OnnxNode) -> list[RelaxExpr]:
    """UINT8 by the range of the data, which includes 0; its scale and its zero point."""
    x, zero = e.value(node.inputs[0]), e.scalar(0)
    low = e.emit(op.minimum(op.min(x), zero), "low")
    high = e.emit(op.maximum(op.max(x), zero), "high")
    span = e.emit(op.divide(op.subtract(high, low), e.scalar(_LEVELS)), "span")
    # the scale of zeros alone, as in onnxruntime
    scale = e.emit(op.where(op.equal(high, low), e.scalar(1), span), "scale")
    zero_point = op.quantize(op.negative(low), scale, e.scalar(0, "uint8"), 0, "uint8")
    # Otherwise the zero point of an infinite range is a converted NaN. onnxruntime and
    # onnx.reference have 255 for -inf.
    endless = op.equal(low, e.scalar(-np.inf))
    zero_point = op.where(endless, e.scalar(int(_LEVELS), "uint8"), zero_point)
    zero_point = e.emit(zero_point, "zero_point")
    return [e.emit(op.quantize(x, scale, zero_point, 0, "uint8")), scale, zero_point]
