"""Steps of discrete Fourier transforms between products with constant matrices.

A transform of ``n1 * n2`` elements is ``n2`` transforms of ``n1`` elements, factors, and ``n1``
transforms of ``n2`` elements. Complex numbers are pairs along the last axis.
"""

from __future__ import annotations

from typing import Any

from tvmconv.tvm_api import te, tirx
from tvmconv.tvm_api.types import Expr, Tensor


def frames(signal: Tensor, window: Tensor | None, count: int, step: int, length: int) -> Tensor:
    """Pieces of a signal ``(batch, size, parts)``: ``(batch, count, length, parts)``.

    Each piece starts ``step`` elements after the one before, and is multiplied by ``window``.
    """
    batch, _, parts = (int(size) for size in signal.shape)

    def element(b: Expr, frame: Expr, place: Expr, part: Expr) -> Any:
        value: Any = signal[b, frame * step + place, part]
        return value if window is None else value * window[place]

    return te.compute((batch, count, length, parts), element, name="frames")


def turned(data: Tensor, factors: Tensor) -> Tensor:
    """Multiply ``(batch, n2, n1, 2)`` by ``(n2, n1, 2)``; the result is ``(batch, n1, n2, 2)``."""
    batch, second, first, _ = (int(size) for size in data.shape)

    def element(b: Expr, k: Expr, n: Expr, part: Expr) -> Any:
        return _product(data, (b, n, k), factors, (n, k), part)

    return te.compute((batch, first, second, 2), element, name="turned")


def multiplied(data: Tensor, factors: Tensor) -> Tensor:
    """Multiply complex numbers ``(batch, n, 2)`` by ``(n, 2)``."""

    def element(b: Expr, k: Expr, part: Expr) -> Any:
        return _product(data, (b, k), factors, (k,), part)

    return te.compute(data.shape, element, name="multiplied")


def _product(
    data: Tensor, place: tuple[Expr, ...], factors: Tensor, factor: tuple[Expr, ...], part: Expr
) -> Any:
    """One part of the product of two complex numbers."""
    real, imaginary = (data[(*place, index)] for index in range(2))
    cosine, sine = (factors[(*factor, index)] for index in range(2))
    return tirx.Select(
        part == 0, real * cosine - imaginary * sine, real * sine + imaginary * cosine
    )


def mirrored(data: Tensor, places: Tensor, signs: Tensor) -> Tensor:
    """Pairs of ``(batch, n, 2)`` at ``places``, times ``signs`` of shape ``(count, 2)``."""
    count = int(places.shape[0])

    def element(b: Expr, k: Expr, part: Expr) -> Any:
        value: Any = data[b, places[k], part]
        return value * signs[k, part]

    return te.compute((int(data.shape[0]), count, 2), element, name="mirrored")
