"""The transform matrices of Winograd convolution F(m, r), by Cook-Toom interpolation.

An output of ``m`` values by a filter of ``r`` taps needs ``n = m + r - 1`` products. The product of
two polynomials is evaluated at ``n - 1`` points and at infinity, and interpolated. All arithmetic
is rational. Points may share one irrational scale. It multiplies every entry by a known power of
itself, and the powers cancel in the result.

A column of ``A^T`` may have any factor by which its row of ``G`` is divided. With a scale, entries
of ``A^T`` are not 1. Factors for pairs of points give each output entries of 1. A tile of four
outputs then needs ten instructions instead of twelve.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2016), equation 7. Wang et al.,
"Optimizing Winograd-Based Fast Convolution Algorithm on Phytium Multi-Core CPUs" (2020),
equation 3. Their P and Q are G and B here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Rational = tuple[tuple[Fraction, ...], ...]

_HALF = Fraction(1, 2)
# products -> (points, squared scale), with the smallest error on normally distributed data among
# sets whose transforms need few multiplications; see docs/notes/winograd.md
_POINTS: dict[int, tuple[tuple[Fraction, ...], Fraction]] = {
    1: ((), Fraction(1)),
    2: ((Fraction(0),), Fraction(1)),
    3: ((Fraction(0), Fraction(1)), Fraction(1)),
    4: ((Fraction(0), Fraction(1), Fraction(-1)), Fraction(1)),
    5: ((Fraction(1), Fraction(-1), _HALF, -_HALF), Fraction(1)),
    6: (tuple(Fraction(p) for p in (0, 1, -1, 2, -2)), _HALF),
    7: (tuple(Fraction(p, 15) for p in (15, -15, 25, -25, 6, -6)), Fraction(1)),
    8: ((*(Fraction(p) for p in (0, 1, -1, 2, -2)), _HALF, -_HALF), Fraction(1)),
}
MOST_PRODUCTS = max(_POINTS)
# input channels, and rounding per root of them: sums of 576 to 22528 products in 9x9, 11x11 and
# 1x64 kernels had 0.5 to 0.7
_LONG_SUM, _RANDOM_WALK = 512, 0.62


@dataclass(frozen=True)
class Transforms:
    """The matrices of F(m, r): ``y = A^T [(G g) * (B^T d)]``.

    Entries are multiplied by ``scale ** power``. The powers follow from the position, see the
    properties below.

    Parameters
    ----------
    m, r
        Outputs and taps.
    at, g, bt
        Rational parts, of shapes (m, n), (n, r) and (n, n) with n = m + r - 1.
    scale_squared
        Square of the factor by which all points are multiplied.
    pairs
        Rows of ``B^T`` of opposite points, each pair once, the positive point first. Even and odd
        parts of such rows are equal except for a sign.
    moved
        Power of its point by which each column of ``A^T`` is divided, and the row of ``G``
        multiplied.
    """

    m: int
    r: int
    at: Rational
    g: Rational
    bt: Rational
    scale_squared: Fraction
    pairs: tuple[tuple[int, int], ...]
    moved: tuple[int, ...]

    @property
    def n(self) -> int:
        """Products, and inputs, of one tile."""
        return self.m + self.r - 1

    def at_power(self, i: int, p: int) -> int:
        """Power of the scale in ``A^T[i][p]``."""
        return i - self.moved[p] if p < self.n - 1 else 0

    def g_power(self, p: int, k: int) -> int:
        """Power of the scale in ``G[p][k]``."""
        return k + self.moved[p] - (self.n - 2) if p < self.n - 1 else 0

    def bt_power(self, p: int, j: int) -> int:
        """Power of the scale in ``B^T[p][j]``."""
        return self.n - 2 - j if p < self.n - 1 else self.n - 1 - j

    def _scaled(self, value: Fraction, power: int) -> float:
        exact = value * self.scale_squared ** (power // 2)
        return float(exact) * (float(self.scale_squared) ** 0.5 if power % 2 else 1.0)

    def _matrix(
        self, rows: Rational, power: Callable[[int, int], int], shape: tuple[int, int]
    ) -> npt.NDArray[np.float64]:
        values = [
            [self._scaled(value, power(i, j)) for j, value in enumerate(row)]
            for i, row in enumerate(rows)
        ]
        return np.array(values).reshape(shape)

    def output_matrix(self) -> npt.NDArray[np.float64]:
        """``A^T``, shape (m, n)."""
        return self._matrix(self.at, self.at_power, (self.m, self.n))

    def filter_matrix(self) -> npt.NDArray[np.float64]:
        """``G``, shape (n, r)."""
        return self._matrix(self.g, self.g_power, (self.n, self.r))

    def input_matrix(self) -> npt.NDArray[np.float64]:
        """``B^T``, shape (n, n)."""
        return self._matrix(self.bt, self.bt_power, (self.n, self.n))


@lru_cache(maxsize=64)
def transforms(m: int, r: int) -> Transforms:
    """The matrices of F(m, r), with at most :data:`MOST_PRODUCTS` products ``m + r - 1``."""
    return _with_ones(interpolation(m, r, *points_of(m + r - 1)))


def points_of(n: int) -> tuple[tuple[Fraction, ...], Fraction]:
    """The points of ``n`` products in addition to infinity, and the square of their scale."""
    return _POINTS[n]


def _with_ones(found: Transforms) -> Transforms:
    """Factors of columns that leave entries of 1 in outputs without such entries.

    The first output has entries of 1 from zero, and the last output from infinity.
    """
    if found.scale_squared == 1:
        return found
    moved, at, g = [0] * found.n, [list(row) for row in found.at], list(found.g)
    for i, pair in zip(range(1, found.m - 1), found.pairs, strict=False):
        factor = abs(found.at[i][pair[0]])
        for p in pair:
            moved[p] = i
            g[p] = tuple(value * factor for value in g[p])
            for row in at:
                row[p] /= factor
    return replace(found, at=tuple(map(tuple, at)), g=tuple(g), moved=tuple(moved))


def interpolation(
    m: int, r: int, points: tuple[Fraction, ...], scale_squared: Fraction = Fraction(1)
) -> Transforms:
    """The matrices of F(m, r) with ``m + r - 2`` points in addition to infinity."""
    bt, g = [], []
    for p, point in enumerate(points):
        others = [q for i, q in enumerate(points) if i != p]
        norm = Fraction(1)
        for other in others:
            norm *= point - other
        bt.append((*_polynomial(others), Fraction(0)))
        g.append(tuple(point**k / norm for k in range(r)))
    bt.append(tuple(_polynomial(points)))
    g.append(tuple(Fraction(int(k == r - 1)) for k in range(r)))
    at = tuple((*(point**i for point in points), Fraction(int(i == m - 1))) for i in range(m))
    pairs = tuple(
        (p, points.index(-point))
        for p, point in enumerate(points)
        if point > 0 and -point in points
    )
    moved = (0,) * len(bt)
    return Transforms(m, r, at, tuple(g), tuple(bt), scale_squared, pairs, moved)


def rounding_error(growth: float, in_channels: int) -> float:
    """Estimate of max|error| / max|reference| in float32.

    Rounding of sums over the input channels, fitted to measurements, times the growth by the
    transforms of both axes. ``in_channels`` counts each phase of a kernel. Both forms agree where
    they meet: errors of long sums grow like a random walk.
    """
    rounding = 3.4 + in_channels / 48
    if in_channels > _LONG_SUM:
        rounding = _RANDOM_WALK * in_channels**0.5
    return float(2.0**-24 * growth * rounding)


def _polynomial(roots: list[Fraction] | tuple[Fraction, ...]) -> list[Fraction]:
    """Coefficients of the product of (x - root), lowest power first."""
    result = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *result]
        result = [a - root * b for a, b in zip(shifted, [*result, Fraction(0)], strict=True)]
    return result
