"""Windows and Winograd tiles of planes, for numbers of any type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def direct(x: Array, weight: Array, stride: int, fill: int = 0) -> Array:
    """Convolution as one matrix product; padding keeps the size and holds ``fill``.

    Parameters
    ----------
    x, weight
        Shapes (N, C, H, W) and (K, C, R, S), of the same type.
    stride
        Of both axes.
    fill
        Value of the padding.

    Returns
    -------
    numpy.ndarray
        Shape (N, K, P, Q).
    """
    k, c, r, s = weight.shape
    padded = _padded(x, r // 2, r // 2, s // 2, s // 2, fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (r, s), (2, 3))
    columns = windows[:, :, ::stride, ::stride].transpose(0, 2, 3, 1, 4, 5)
    n, p, q = columns.shape[:3]
    product = columns.reshape(n * p * q, c * r * s) @ weight.reshape(k, -1).T
    return product.reshape(n, p, q, k).transpose(0, 3, 1, 2)


def tiles(x: Array, m: int, fill: int = 0) -> Array:
    """Overlapping tiles of F(m, 3) with padding of 1 that holds ``fill``.

    Returns
    -------
    numpy.ndarray
        Shape (m + 2, m + 2, C, N * rows * columns of tiles), of ``x`` of shape (N, C, H, W).
    """
    _, c, h, w = x.shape
    padded = _padded(x, 1, 1 + -h % m, 1, 1 + -w % m, fill)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (m + 2, m + 2), (2, 3))
    return np.ascontiguousarray(
        windows[:, :, ::m, ::m].transpose(4, 5, 1, 0, 2, 3).reshape(m + 2, m + 2, c, -1)
    )


def untiled(y: Array, n: int, h: int, w: int) -> Array:
    """(m, m, K, N * tiles) to (N, K, H, W); rows and columns beyond are dropped."""
    m, _, k, _ = y.shape
    rows, columns = -(-h // m), -(-w // m)
    planes = y.reshape(m, m, k, n, rows, columns).transpose(3, 2, 4, 0, 5, 1)
    return planes.reshape(n, k, rows * m, columns * m)[:, :, :h, :w]


def both_sides(matrix: Array, x: Array) -> Array:
    """``matrix @ x @ matrix.T`` over the first two axes of ``x``, as one product."""
    rows, columns = matrix.shape
    both = np.kron(matrix, matrix)
    flat = x.reshape(columns**2, -1)
    # numpy's plain product of integers is a slow loop, its einsum is not
    product = both @ flat if x.dtype.kind == "f" else np.einsum("ai,ix->ax", both, flat)
    return product.reshape(rows, rows, *x.shape[2:])


def _padded(x: Array, top: int, bottom: int, left: int, right: int, fill: int) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
