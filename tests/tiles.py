"""Winograd's tiles by the definition, in float64 numpy: two-sided products, one tile at a time."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tests.strategies import ConvArrays
from tvmconv.algorithms.winograd.matrices import Transforms
from tvmconv.core.workload import Conv2dWorkload

Array = npt.NDArray[np.float64]
# F(4, 3) as Wang et al. (2020), section 1.2, print it: A^T, P and Q^T
F4_OUTPUT = [[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 0], [0, 1, 1, 4, 4, 0], [0, 1, -1, 8, -8, 1]]
F4_FILTER = [
    [Fraction(1, 4), 0, 0],
    [Fraction(-1, 6), Fraction(-1, 6), Fraction(-1, 6)],
    [Fraction(-1, 6), Fraction(1, 6), Fraction(-1, 6)],
    [Fraction(1, 24), Fraction(1, 12), Fraction(1, 6)],
    [Fraction(1, 24), Fraction(-1, 12), Fraction(1, 6)],
    [0, 0, 1],
]
F4_INPUT = [
    [4, 0, -5, 0, 1, 0],
    [0, -4, -4, 1, 1, 0],
    [0, 4, -4, -1, 1, 0],
    [0, -2, -1, 2, 1, 0],
    [0, 2, -1, -2, 1, 0],
    [0, 4, 0, -5, 0, 1],
]


def transformed_tiles(workload: Conv2dWorkload, m: int, data: Array, matrix: Array) -> Array:
    """``Q^T x Q`` of every tile: (N, C, tiles, delta, delta), tiles row by row."""
    w, delta = workload, matrix.shape[0]
    rows, columns = -(-w.out_height // m), -(-w.out_width // m)
    size = (rows * m + delta, columns * m + delta)
    padded = np.zeros((w.batch, w.in_channels, *size))
    there = padded[:, :, w.pad_top :, w.pad_left :]
    height, width = min(w.in_height, there.shape[2]), min(w.in_width, there.shape[3])
    there[:, :, :height, :width] = data[:, :, :height, :width]
    tiles = [
        padded[:, :, y * m : y * m + delta, x * m : x * m + delta]
        for y in range(rows)
        for x in range(columns)
    ]
    return np.einsum("ai,tncij,bj->nctab", matrix, np.array(tiles), matrix)


def tile_products(
    workload: Conv2dWorkload, m: int, arrays: ConvArrays, matrices: Transforms
) -> Array:
    """Sums over channels of transformed filters times tiles: (N, K, tiles, delta, delta)."""
    tiles = transformed_tiles(workload, m, arrays.data, matrices.input_matrix())
    g = matrices.filter_matrix()
    filters = np.einsum("au,kcuv,bv->kcab", g, arrays.weight.astype(np.float64), g)
    return np.einsum("kcab,nctab->nktab", filters, tiles)
