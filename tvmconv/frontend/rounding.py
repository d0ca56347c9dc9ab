"""QuantizeLinear and DequantizeLinear of constants, as ONNX defines them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmconv.core.stored_types import LARGEST, integer_limits, numpy_type
from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.quantize_linear import block_size, channel_axis, division_type, quantized_type


def quantized(node: OnnxNode, data: Array, scale: Array, zero_point: Array | None) -> Array:
    """Integers of a QuantizeLinear: ``saturate(round(data / scale) + zero point)``.

    The division is in the scale's type, or in the type of ``precision``, with ties to even. A NaN
    becomes the smallest integer, as in onnxruntime.
    """
    name = quantized_type(node, None if zero_point is None else str(zero_point.dtype))
    dtype, precise = numpy_type(name), numpy_type(division_type(node, str(scale.dtype)))
    wide_scale = parameter(node, data.shape, scale).astype(precise)
    if name.startswith("float"):
        return _short_floats(node, data.astype(precise) / wide_scale, dtype, zero_point)
    low, high = integer_limits(name)
    with np.errstate(all="ignore"):
        # in float64, the sums with a zero point are exact
        rounded = np.rint(data.astype(precise) / wide_scale).astype(np.float64)
    if zero_point is not None:
        rounded = rounded + parameter(node, data.shape, zero_point).astype(np.float64)
    rounded = np.where(np.isnan(rounded), low, rounded)
    return np.asarray(np.clip(rounded, low, high).astype(dtype))


def _short_floats(
    node: OnnxNode, quotient: Array, dtype: np.dtype[Any], zero_point: Array | None
) -> Array:
    """Numbers rounded to 8 bits or fewer."""
    values = quotient.astype(np.float32)
    if zero_point is not None:
        values = values + parameter(node, quotient.shape, zero_point).astype(np.float32)
    if node.attrs.get("saturate", 1):
        values = np.clip(values, -LARGEST[str(dtype)], LARGEST[str(dtype)])
    with np.errstate(all="ignore"):
        return np.asarray(values.astype(dtype))


def dequantized(node: OnnxNode, data: Array, scale: Array, zero_point: Array | None) -> Array:
    """Numbers of a DequantizeLinear: ``(data - zero point) * scale``, in the scale's type."""
    exact = np.float64 if str(data.dtype).startswith("float") else np.int64
    centered = data.astype(exact)
    if zero_point is not None:
        centered = centered - parameter(node, data.shape, zero_point).astype(exact)
    product = centered.astype(np.float32) * parameter(node, data.shape, scale).astype(np.float32)
    return product.astype(scale.dtype)


def parameter(node: OnnxNode, shape: tuple[int, ...], values: Array) -> Array:
    """Scales or zero points in a form that broadcasts to data of a shape."""
    axis = channel_axis(node, shape, values.shape)
    if axis is None:
        return values.reshape(())
    if block_size(node):
        wide = np.repeat(values, block_size(node), axis)
        return wide[tuple(slice(n) for n in shape)]
    return values.reshape(-1, *[1] * (len(shape) - axis - 1))
