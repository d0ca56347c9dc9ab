"""Convolution with every intermediate rounded to a width, as the source's table simulates it.

Inputs, weights, their transforms, the sums of products over channels and the outputs are each
rounded to ``bits`` bits by one symmetric scale for the tensor, which calibration images give.
"""

from __future__ import annotations

import numpy as np

from examples.accuracy.network import Floats, Layers, evaluate
from examples.accuracy.planes import both_sides, direct, tiles, untiled
from tvmconv.algorithms.winograd.matrices import Rational, transforms

# "32 bits" are float32's
FLOAT = 32


def _matrix(rows: Rational) -> Floats:
    return np.array([[float(v) for v in row] for row in rows], np.float32)


# largest absolute values by layer and tensor
Ranges = dict[tuple[str, str], float]


class Rounded:
    """Arithmetic in which everything has ``bits`` bits.

    Parameters
    ----------
    layers
        The network's.
    tile
        Outputs m of F(m x m, 3 x 3) in layers that allow it; 0 for direct convolution in all.
    bits
        Width, or :data:`FLOAT` for float32 without rounding.
    ranges
        Result of :func:`observe` with the same tile; without it, ``bits`` is :data:`FLOAT`.
    """

    def __init__(
        self, layers: Layers, tile: int, bits: int = FLOAT, ranges: Ranges | None = None
    ) -> None:
        self._layers, self._tile, self._bits = layers, tile, bits
        if tile:
            matrices = transforms(tile, 3)
            # points without the scale that tvmconv gives them: the source's matrices but for signs
            self._at, self._g, self._bt = map(_matrix, (matrices.at, matrices.g, matrices.bt))
        self._observing = ranges is None
        self.ranges: Ranges = ranges or {}

    def images(self, x: Floats) -> Floats:
        """Unchanged."""
        return x

    def convolve(self, name: str, x: Floats, rectify: bool) -> Floats:
        """Shape (N, C, H, W) to (N, K, P, Q)."""
        layer = self._layers[name]
        x = self._round(name, "input", x)
        weight = self._round(name, "weight", layer.weight)
        if self._tile and layer.winograd:
            y = self._winograd(name, x, weight)
        else:
            y = direct(x, weight, layer.stride)
        y = self._round(name, "output", y + layer.bias[:, None, None])
        return np.maximum(y, 0) if rectify else y

    def join(self, name: str, y: Floats, shortcut: Floats) -> Floats:
        """The next layer rounds it."""
        return np.maximum(y + shortcut, 0)

    def logits(self, name: str, x: Floats) -> Floats:
        """Rounded, too."""
        return self.convolve(name, x.mean((2, 3), keepdims=True), rectify=False)[:, :, 0, 0]

    def _winograd(self, name: str, x: Floats, weight: Floats) -> Floats:
        n, _, h, w = x.shape
        u = self._round(name, "U", both_sides(self._g, weight.transpose(2, 3, 0, 1)))
        v = self._round(name, "V", both_sides(self._bt, tiles(x, self._tile)))
        sums = self._round(name, "M", u @ v)
        return untiled(both_sides(self._at, sums), n, h, w)

    def _round(self, name: str, what: str, x: Floats) -> Floats:
        key = name, what
        if self._observing:
            self.ranges[key] = max(float(np.abs(x).max()), self.ranges.get(key, 0.0))
        if self._bits == FLOAT:
            return x
        most = 2 ** (self._bits - 1) - 1
        step = np.float32(max(self.ranges[key], 1e-30) / most)
        return np.clip(np.rint(x / step), -most, most) * step


def observe(layers: Layers, tile: int, calibration: Floats) -> Ranges:
    """Largest absolute values that occur in float32, the same algorithm used."""
    arithmetic = Rounded(layers, tile)
    evaluate(layers, calibration, arithmetic)
    return arithmetic.ranges
