"""QuantizeLinear and DequantizeLinear of constants, as ONNX defines them."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.quantize_linear import block_size, channel_axis, division_type, quantized_type


def quantized(node: OnnxNode, data: Array, scale: Array, zero_point: Array | None) -> Array:
    """Integers of a QuantizeLinear: ``saturate(round(data / scale) + zero point)``.

    The division is in the scale's type, or in the type of ``precision``, with ties to even. A NaN
    becomes the smallest integer, as in onnxruntime.
    """
    dtype = np.dtype(quantized_type(node, None if zero_point is None else str(zero_point.dtype)))
    precise = np.dtype(division_type(node, str(scale.dtype)))
    limits = np.iinfo(dtype)
    wide_scale = parameter(node, data.shape, scale).astype(precise)
    with np.errstate(all="ignore"):
        # in float64, the sums with a zero point are exact
        rounded = np.rint(data.astype(precise) / wide_scale).astype(np.float64)
    if zero_point is not None:
        rounded = rounded + parameter(node, data.shape, zero_point)
    rounded = np.where(np.isnan(rounded), limits.min, rounded)
    return np.asarray(np.clip(rounded, limits.min, limits.max).astype(dtype))


def dequantized(node: OnnxNode, data: Array, scale: Array, zero_point: Array | None) -> Array:
    """Numbers of a DequantizeLinear: ``(data - zero point) * scale``, in the scale's type."""
    centered = data.astype(np.int64)
    if zero_point is not None:
        centered = centered - parameter(node, data.shape, zero_point).astype(np.int64)
    product = centered.astype(np.float32) * parameter(node, data.shape, scale).astype(np.float32)
    return product.astype(scale.dtype)


def parameter(node: OnnxNode, shape: tuple[int, ...], values: Array) -> Array:
    """Scales or zero points in a form that broadcasts to data of a shape."""
    axis = channel_axis(node, shape, values.shape)
    if axis is None:
        return values.reshape(())
    if values.ndim > 1:
        wide = np.repeat(values, block_size(node), axis)
        return wide[tuple(slice(n) for n in shape)]
    return values.reshape(-1, *[1] * (len(shape) - axis - 1))
