"""Constant integers that represent real numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tvmconv.frontend.graph import Array


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
