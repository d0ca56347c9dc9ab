"""The 8-bit network in integers: direct convolution, and Winograd that equals it in every bit.

Activations are unsigned bytes with a zero point, weights signed bytes with a scale for each output
channel, sums 32-bit integers, and nothing between input and sum is rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from examples.accuracy.network import Floats, Layers, evaluate
from examples.accuracy.planes import Array, both_sides, direct, tiles, untiled

Integers = npt.NDArray[np.int32]


# least and largest values by activation
Ranges = dict[str, tuple[float, float]]


@dataclass(frozen=True)
class Exact:
    """F(m, 3) with integer matrices, whose result is ``9 ** ninths * 2 ** shift`` times too large.

    Sums are modulo 2^32. Multiplying by the inverse of 9 and shifting right arithmetically gives
    the output itself as long as it is below ``2 ** (31 - shift)``: what overflowed before does not
    matter.
    """

    at: Integers
    g: Integers
    bt: Integers
    ninths: int
    shift: int

    @property
    def m(self) -> int:
        """Outputs of a tile in one dimension."""
        return len(self.at)


def _integers(*rows: tuple[int, ...]) -> Integers:
    return np.array(rows, np.int32)


EXACT = {
    # 2 G on both sides: 4 times the output
    2: Exact(
        at=_integers((1, 1, 1, 0), (0, 1, -1, -1)),
        g=_integers((2, 0, 0), (1, 1, 1), (1, -1, 1), (0, 0, 2)),
        bt=_integers((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1)),
        ninths=0,
        shift=2,
    ),
    # 24 G on both sides, 576 = 9 * 2^6 times the output. The last row of G is halved, for which
    # the last column of A^T is doubled: so transformed weights have 16 bits
    4: Exact(
        at=_integers(
            (1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 2)
        ),
        g=_integers((6, 0, 0), (-4, -4, -4), (-4, 4, -4), (1, 2, 4), (1, -2, 4), (0, 0, 12)),
        bt=_integers(
            (4, 0, -5, 0, 1, 0),
            (0, -4, -4, 1, 1, 0),
            (0, 4, -4, -1, 1, 0),
            (0, -2, -1, 2, 1, 0),
            (0, 2, -1, -2, 1, 0),
            (0, 4, 0, -5, 0, 1),
        ),
        ninths=1,
        shift=6,
    ),
}
_INVERSE_OF_9 = np.int32(pow(9, -1, 2**32))


def winograd(x: Array, weight: Array, m: int, zero_point: int) -> Integers:
    """Sums of products of bytes by F(m x m, 3 x 3), without rounding.

    Parameters
    ----------
    x
        Unsigned bytes, shape (N, C, H, W); padding of 1 holds the zero point, which is not
        subtracted.
    weight
        Signed bytes, shape (K, C, 3, 3).
    m
        2 or 4.
    zero_point
        Of ``x``.

    Returns
    -------
    numpy.ndarray
        Shape (N, K, H, W).

    Raises
    ------
    OverflowError
        If an output of these weights can reach the bound of :class:`Exact`.
    """
    exact = EXACT[m]
    weight = weight.astype(np.int32)
    one_sided = [
        np.abs(np.where(part, weight, 0).sum((1, 2, 3))) for part in (weight > 0, weight < 0)
    ]
    largest = 255 * int(np.max(one_sided))
    if largest >= 2 ** (31 - exact.shift):
        raise OverflowError(
            f"outputs of F({m}, 3) may reach {largest}, 2^{31 - exact.shift} or more"
        )
    n, _, h, w = x.shape
    u = _short(both_sides(exact.g, weight.transpose(2, 3, 0, 1)))
    v = _short(both_sides(exact.bt, tiles(x.astype(np.int32), m, zero_point)))
    points = (m + 2) ** 2
    # numpy's integers are modulo 2^32
    products = np.einsum(
        "pkc,pct->pkt", u.reshape(points, *u.shape[2:]), v.reshape(points, *v.shape[2:])
    )
    y = both_sides(exact.at, products.reshape(m + 2, m + 2, *products.shape[1:]))
    if exact.ninths:
        y = y * _INVERSE_OF_9
    return untiled(y >> exact.shift, n, h, w)


def _short(x: Integers) -> Integers:
    """What a kernel keeps in 16 bits."""
    assert np.array_equal(x, x.astype(np.int16))
    return x


@dataclass(frozen=True)
class Bytes:
    """Activations: ``scale * (q - zero_point)``, ``q`` unsigned bytes of shape (N, C, H, W)."""

    q: npt.NDArray[np.uint8]
    scale: np.float32
    zero_point: int

    def real(self) -> Floats:
        """What the bytes stand for."""
        return (self.q.astype(np.float32) - np.float32(self.zero_point)) * self.scale


class InBytes:
    """Arithmetic of the 8-bit network.

    Parameters
    ----------
    layers
        The network's.
    tile
        Outputs m of F(m x m, 3 x 3) in layers that allow it; 0 for direct convolution in all.
    ranges
        Result of :func:`observe`.
    """

    def __init__(self, layers: Layers, tile: int, ranges: Ranges) -> None:
        self._layers, self._tile, self._ranges = layers, tile, ranges

    def images(self, x: Floats) -> Bytes:
        """Quantised images."""
        return self._bytes("images", x)

    def convolve(self, name: str, x: Bytes, rectify: bool) -> Bytes:
        """The requantised sums; the range of a rectified output begins at 0."""
        sums, scales = self._sums(name, x)
        scale, zero_point = self._form(name)
        q = np.rint(sums.astype(np.float32) * (scales / scale)[:, None, None]) + zero_point
        return Bytes(np.clip(q, 0, 255).astype(np.uint8), scale, zero_point)

    def join(self, name: str, y: Bytes, shortcut: Bytes) -> Bytes:
        """Computed in float32, as ONNX's QDQ form says."""
        return self._bytes(name, np.maximum(y.real() + shortcut.real(), 0))

    def logits(self, name: str, x: Bytes) -> Floats:
        """Not requantised."""
        sums, scales = self._sums(
            name, self._bytes("average", x.real().mean((2, 3), keepdims=True))
        )
        return (sums[:, :, 0, 0] * scales).astype(np.float32)

    def _sums(self, name: str, x: Bytes) -> tuple[Array, Floats]:
        """Sums with bias, shape (N, K, P, Q), and what one is worth in each channel."""
        layer = self._layers[name]
        steps = np.abs(layer.weight).max((1, 2, 3)) / np.float32(127)
        weight = np.rint(layer.weight / steps[:, None, None, None]).astype(np.int8)
        scales = steps * x.scale
        if self._tile and layer.winograd:
            sums: Array = winograd(x.q, weight, self._tile, x.zero_point)
        else:
            # doubles hold these integers exactly, and their products are quick
            sums = direct(x.q.astype(float), weight.astype(float), layer.stride, x.zero_point)
            sums = sums.astype(np.int32)
        bias = np.rint(layer.bias / scales).astype(np.int32)
        bias -= x.zero_point * weight.sum((1, 2, 3), dtype=np.int32)
        return sums + bias[:, None, None], scales

    def _bytes(self, name: str, x: Floats) -> Bytes:
        scale, zero_point = self._form(name)
        q = np.clip(np.rint(x / scale) + zero_point, 0, 255)
        return Bytes(q.astype(np.uint8), scale, zero_point)

    def _form(self, name: str) -> tuple[np.float32, int]:
        least, most = self._ranges[name]
        scale = np.float32(max(most - least, 1e-30) / 255)
        return scale, round(-least / float(scale))


class _Observed:
    """Float32 arithmetic that keeps the range of every activation, 0 included."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self.ranges: Ranges = {}

    def images(self, x: Floats) -> Floats:
        return self._seen("images", x)

    def convolve(self, name: str, x: Floats, rectify: bool) -> Floats:
        layer = self._layers[name]
        y = direct(x, layer.weight, layer.stride) + layer.bias[:, None, None]
        return self._seen(name, np.maximum(y, 0) if rectify else y)

    def join(self, name: str, y: Floats, shortcut: Floats) -> Floats:
        return self._seen(name, np.maximum(y + shortcut, 0))

    def logits(self, name: str, x: Floats) -> Floats:
        average = self._seen("average", x.mean((2, 3), keepdims=True))
        return self.convolve(name, average, rectify=False)[:, :, 0, 0]

    def _seen(self, name: str, x: Any) -> Any:
        least, most = self.ranges.get(name, (0.0, 0.0))
        self.ranges[name] = min(least, float(x.min())), max(most, float(x.max()))
        return x


def observe(layers: Layers, calibration: Floats) -> Ranges:
    """Ranges of activations in float32, which hold 0."""
    observed = _Observed(layers)
    evaluate(layers, calibration, observed)
    return observed.ranges
