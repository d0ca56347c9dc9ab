"""Constant integers that represent real numbers, and bounds of their accumulators."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvmconv.frontend.graph import Array, OnnxNode

_LIMIT = 2**31


@dataclass(frozen=True)
class QuantizedConstant:
    """Constant integers that represent ``(data - zero point) * scale``.

    ``scale`` is FP32. ``scale`` and ``zero_point`` are numbers, or vectors with one value for each
    index along ``axis``, which is not negative.
    """

    data: Array
    scale: Array
    zero_point: Array
    axis: int

    def reshaped(self, shape: tuple[int, ...], axis: int) -> QuantizedConstant:
        """The integers in another shape, in which the scales' axis is ``axis``."""
        return replace(self, data=self.data.reshape(shape), axis=axis)

    def transposed(self) -> QuantizedConstant:
        """A matrix with rows and columns exchanged."""
        data = np.ascontiguousarray(self.data.T)
        return replace(self, data=data, axis=1 - self.axis if self.scale.ndim else 0)

    def centered(self) -> Array:
        """The integers without their zero points, INT64."""
        zero_point = self._along(self.zero_point.astype(np.int64))
        return np.asarray(self.data.astype(np.int64) - zero_point)

    def values(self) -> Array:
        """The numbers in FP32."""
        return np.asarray(self.centered().astype(np.float32) * self._along(self.scale))

    def _along(self, vector: Array) -> Array:
        """A parameter in a shape that broadcasts to the data."""
        if not vector.ndim:
            return vector
        shape = [1] * self.data.ndim
        shape[self.axis] = -1
        return vector.reshape(shape)


def largest_sum(weight: Array, zero_point: Array | int = 0, bias: Array | None = None) -> int:
    """A bound on the magnitude of any sum of INT8 data, without their zero point, times weights.

    ``weight`` has shape (outputs, ...), ``zero_point`` is broadcast to it, ``bias`` has one integer
    per output.

    Data without their zero point are in ``[-z, 255 - z]`` with z of 0 to 255. P and N are the
    magnitudes of the sums of positive and of negative weights. The largest sum is
    ``(255 - z) * P + z * N``, which is at most ``255 * max(P, N)``.
    """
    centered = weight.astype(np.int64) - np.asarray(zero_point, np.int64)
    rows = centered.reshape(len(centered), -1)
    positive, negative = np.maximum(rows, 0).sum(1), np.maximum(-rows, 0).sum(1)
    bounds = 255 * np.maximum(positive, negative)
    if bias is not None:
        bounds = bounds + np.abs(bias.astype(np.int64))
    return int(bounds.max(initial=0))


def check_sums(
    node: OnnxNode, weight: Array, zero_point: Array | int = 0, bias: Array | None = None
) -> None:
    """Refuse constant weights with which a sum may leave 32 bits; see :func:`largest_sum`."""
    bound = largest_sum(weight, zero_point, bias)
    if bound >= _LIMIT:
        raise node.error(
            f"its sums may reach {bound}, which int32 does not hold",
            "quantize with smaller weights (reduce_range), or leave this layer in float32",
        )
