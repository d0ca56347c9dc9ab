"""Bounds of 32-bit sums of 8-bit products."""

from __future__ import annotations

import numpy as np

from tvmconv.frontend.graph import Array, OnnxNode

_LIMIT = 2**31


def largest_sum(weight: Array, zero_point: Array | int = 0, bias: Array | None = None) -> int:
    """A bound on the magnitude of any sum of 8-bit data, less their zero point, times weights.

    Data of 8 bits less any zero point of their type lie in ``[-z, 255 - z]`` with z of 0 to 255. A
    sum is largest where data are largest under positive weights and smallest under negative ones:
    ``(255 - z) * P + z * N``, with P and N the magnitudes of the positive and the negative weights'
    sums, and that is at most ``255 * max(P, N)``.

    Parameters
    ----------
    weight
        Integers of shape (outputs, ...).
    zero_point
        Of the weights, broadcast to them.
    bias
        One integer an output.
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
            "quantise with smaller weights (reduce_range), or leave this layer in float32",
        )
