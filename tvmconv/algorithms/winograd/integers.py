"""Exact INT8 Winograd convolution: scaled matrices, and when sums may wrap.

The matrices of F(m, r) are fractions. Multiplied by a whole number ``s`` all entries are integers,
and tiles give ``s * y`` for each output ``y``. :func:`exact_below` states the limit of ``y``, with
the proof. F(2x2, 3x3) in this form is Wen (2020), section 3.3. Its larger tiles need the argument
modulo ``2**32``, because their intermediate sums exceed 32 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import lcm
from typing import Any

import numpy as np

from tvmconv.algorithms.winograd.matrices import Transforms, interpolation
from tvmconv.core.datatypes import DataTypes
from tvmconv.core.errors import WorkloadError
from tvmconv.core.tensor import Array
from tvmconv.core.workload import Conv2dWorkload

# products -> points: small integers, because their powers and differences have to fit 16 bits
_POINTS: dict[int, tuple[int, ...]] = {
    1: (),
    2: (0,),
    3: (0, 1),
    4: (0, 1, -1),
    5: (0, 1, -1, 2),
    6: (0, 1, -1, 2, -2),
}
MOST_PRODUCTS = max(_POINTS)
# standard deviation of normally distributed INT8 weights
USUAL_SIGMA = 36.0
_SHORT = np.iinfo("int16")
_SUM_BITS = 32


@dataclass(frozen=True)
class IntegerTransforms(Transforms):
    """Integer matrices, ``scale * y = A^T [(G g) * (B^T d)]``."""

    scale: int


@lru_cache(maxsize=64)
def integer_transforms(m: int, r: int) -> IntegerTransforms:
    """The matrices of F(m, r) in integers.

    ``G`` is multiplied by the smallest factor that clears its denominators. The last row of ``G``,
    for the point at infinity, would be the factor itself. While the row is even and larger than all
    others, half of it moves to ``A^T``, so that transformed weights of F(4, 3) have 16 bits.
    """
    points = tuple(Fraction(point) for point in _POINTS[m + r - 1])
    found = interpolation(m, r, points)
    scale = lcm(*(value.denominator for row in found.g for value in row))
    g = [[value * scale for value in row] for row in found.g]
    at = [list(row) for row in found.at]
    largest = max((sum(map(abs, row)) for row in g[:-1]), default=Fraction(0))
    while len(g) > 1 and g[-1][-1] > largest and g[-1][-1] % 2 == 0:
        g[-1][-1] /= 2
        at[-1][-1] *= 2
    matrices = replace(found, at=tuple(map(tuple, at)), g=tuple(map(tuple, g)))
    return IntegerTransforms(**vars(matrices), scale=scale)


def fits_shorts(vertical: Transforms, horizontal: Transforms, types: DataTypes) -> bool:
    """Whether all transformed data and weights of some types have 16 bits.

    Data have any values of their type, without subtracting the zero point, which is part of the
    bias. INT16 weights are INT8 weights minus a zero point, at most 255.
    """
    data = np.iinfo(types.data)
    weight = (-128, 127) if types.weight == "int8" else (-255, 255)
    for matrices, (low, high) in (
        ((vertical.input_matrix(), horizontal.input_matrix()), (int(data.min), int(data.max))),
        ((vertical.filter_matrix(), horizontal.filter_matrix()), weight),
    ):
        entries = np.kron(*matrices)
        smallest, largest = _range(entries.reshape(entries.shape[0], -1), low, high)
        # weights are packed with the opposite sign if products are subtracted
        if max(-smallest.min(), largest.max()) > _SHORT.max:
            return False
    return True


def exact_below(vertical: IntegerTransforms, horizontal: IntegerTransforms) -> int:
    """The limit of sums of products below which a tile of 32-bit accumulators is exact.

    ``2**29`` for F(2x2, 3x3) and F(3x3, 3x3), ``2**27`` for F(3x4, 3x3), ``2**25`` for
    F(4x4, 3x3).

    Proof. Let ``y`` be an output's sum of products of stored data (with zero points and padding)
    and weights, and ``s`` the product of both scales. The unscaled identity holds in fractions.
    With unbounded integers therefore ``s * y = A^T [(G g G^T) * (B^T d B)] A``, summed over the
    channels.

    Transformed data and weights fit 16 bits (:func:`fits_shorts`), so that they are stored exactly.
    All later steps are products, sums and multiplications by integers. Each may be computed modulo
    ``2**32``. The result is ``s * y mod 2**32`` for any overflow in between.

    Let ``s = 2**a * q`` with ``q`` odd. ``q`` has an inverse modulo ``2**32``, and the product with
    it is ``2**a * y mod 2**32``. Let ``|y| < 2**(31 - a)``, so that ``|2**a * y| < 2**31``. The
    32-bit integer with this residue is then ``2**a * y``. An arithmetic shift by ``a`` drops ``a``
    zero bits and leaves ``y``. The bias, which includes the data's zero point, is added afterwards.

    Strided kernels are sums over phases as over channels. ``y`` is the sum of all phases, and
    missing taps of a phase are weights of zero.
    """
    shift, _ = _divisor(vertical, horizontal)
    return int(2 ** (_SUM_BITS - 1 - shift))


def divided(value: Any, vertical: IntegerTransforms, horizontal: IntegerTransforms) -> Any:
    """``y`` of ``scale * y mod 2**32``, an int32 expression; see :func:`exact_below`."""
    from tvmconv.tvm_api import tirx

    shift, inverse = _divisor(vertical, horizontal)
    if inverse != 1:
        # TVM would fold the product of signed constants beyond 32 bits, but not of unsigned ones
        product = tirx.reinterpret("uint32", value) * tirx.const(inverse, "uint32")
        value = tirx.reinterpret("int32", product)
    return value >> tirx.const(shift, "int32") if shift else value


def largest_sums(weight: Array, data: str) -> Array:
    """The largest magnitude of sums of products of each output channel, ``(K,)`` int64.

    Products of weights of one sign are largest with the largest data, and products of the other
    sign with the smallest data. ``weight`` is ``(K, ...)`` integers, and ``data`` a type whose
    whole range is used.
    """
    info = np.iinfo(data)
    rows = weight.reshape(weight.shape[0], -1).astype(np.int64)
    smallest, largest = _range(rows, int(info.min), int(info.max))
    return np.maximum(-smallest, largest)


@lru_cache(maxsize=1)
def safe_sum() -> int:
    """The sums of products below which every tile is exact: ``2**25``."""
    tiles = [
        integer_transforms(m, products - m + 1)
        for products in range(2, MOST_PRODUCTS + 1)
        for m in range(2, products + 1)
    ]
    return min(exact_below(tile, tile) for tile in tiles)


def usual_sum(workload: Conv2dWorkload) -> int:
    """The largest sum of products with weights of trained layers, for layers known by shape only.

    The weights are normally distributed, and the largest of some thousand reach the limit of INT8.
    Weights of one sign sum up to ``0.4 * sigma * taps`` on average, with a deviation of
    ``0.58 * sigma * sqrt(taps)``. Six of these deviations are added.
    """
    taps = workload.taps
    one_sided = USUAL_SIGMA * (0.4 * taps + 6 * 0.58 * taps**0.5)
    data = np.iinfo(workload.types.data)
    return min(int(max(data.max, -data.min) * one_sided), worst_sum(workload))


def worst_sum(workload: Conv2dWorkload) -> int:
    """The largest sum of products of a workload with any weights."""
    data = np.iinfo(workload.types.data)
    size = 128 if workload.types.weight == "int8" else 255
    return int(size * max(data.max, -data.min) * workload.taps)


def check_sums(
    weight: Array,
    workload: Conv2dWorkload,
    vertical: IntegerTransforms,
    horizontal: IntegerTransforms,
) -> None:
    """Raise :class:`WorkloadError` for weights with which a tile is not exact."""
    sums, limit = largest_sums(weight, workload.types.data), exact_below(vertical, horizontal)
    if (worst := int(sums.max(initial=0))) >= limit:
        raise WorkloadError(
            f"F({vertical.m}x{horizontal.m}) of {workload} is not exact: sums of channel "
            f"{int(sums.argmax())} reach {worst}. Expected sums below {limit}. Use a smaller tile, "
            "or direct."
        )


def _divisor(vertical: IntegerTransforms, horizontal: IntegerTransforms) -> tuple[int, int]:
    """The shift by the scale's factors of two, and the inverse of the rest."""
    scale = vertical.scale * horizontal.scale
    shift = (scale & -scale).bit_length() - 1
    return shift, pow(scale >> shift, -1, 2**_SUM_BITS)


def _range(rows: Array, low: int, high: int) -> tuple[Array, Array]:
    """The smallest and the largest products of rows with vectors of values between two bounds."""
    up, down = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    return low * up + high * down, high * up + low * down
