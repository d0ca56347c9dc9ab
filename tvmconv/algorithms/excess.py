"""Weights of 8 bits for an instruction that saturates: what it multiplies safely, and the excess.

``vpmaddubsw`` adds two products of unsigned by signed bytes in 16 bits, saturated. With data of 0
to 255, two weights whose positive part has a sum of at most 128, and whose negative part one of at
least -128, are safe: ``255 * 128 = 32,640 < 2**15``. Of other pairs one weight is cut, and what was
cut off, a pair of itself and zero, is safe, too; it is multiplied in a step of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# largest magnitude of the sum of two weights of one sign
_LIMIT = 128
# elements of a word
WORD = 4


def split(weight: Array) -> tuple[Array, Array]:
    """Weights that are safe in pairs, and the rest; both add up to what was given.

    Parameters
    ----------
    weight
        ``(..., 2)`` of int8, the two that are multiplied together last.

    Returns
    -------
    safe, rest
        As ``weight``; both safe. ``rest`` is zero in the second place.

    Proof. Let ``a + b > 128``: since neither exceeds 127, both are positive, and ``a`` less
    ``a + b - 128 < a`` stays so. The rest lies between 1 and 126. Let ``a + b < -128``: where one
    were positive the other would be below -128, so that both are negative or zero, and ``a`` less
    ``a + b + 128``, which is ``-128 - b``, lies between -128 and 0; the rest between -128 and -1.
    In all other pairs of one sign the sum is within the limit, and in pairs of two signs each part
    is one weight.
    """
    wide = weight.astype(np.int16)
    total = wide[..., 0] + wide[..., 1]
    rest = np.zeros_like(wide)
    rest[..., 0] = np.maximum(total - _LIMIT, 0) + np.minimum(total + _LIMIT, 0)
    return (wide - rest).astype(np.int8), rest.astype(np.int8)


def words(weight: Array, lanes: int, channels: int) -> Array:
    """The words of a kernel in the order of its steps, ``(K/lanes, R, S, C/4, lanes, 4)`` int8.

    Parameters
    ----------
    weight
        ``(K, C, R, S)`` of int8.
    lanes
        Output channels of a vector; zeros fill up the last.
    channels
        Those of the data, a multiple of 4: zeros fill up the last.
    """
    out_channels, in_channels, *taps = weight.shape
    blocks = -(-out_channels // lanes)
    padded = np.zeros((blocks * lanes, channels, *taps), np.int8)
    padded[:out_channels, :in_channels] = weight
    steps = padded.reshape(blocks, lanes, channels // WORD, WORD, *taps)
    return np.ascontiguousarray(steps.transpose(0, 4, 5, 2, 1, 3))


def excess_steps(weight: Array, lanes: int) -> int:
    """Steps that the excess of a block of output channels takes on average, rounded up.

    Parameters
    ----------
    weight
        ``(K, C, R, S)`` of int8.
    lanes
        Output channels of a block.
    """
    channels = -(-weight.shape[1] // WORD) * WORD
    pairs = words(weight, lanes, channels)
    _, rest = split(pairs.reshape(*pairs.shape[:-1], WORD // 2, 2))
    return int(-(-rest.any(axis=(-3, -2, -1)).sum() // pairs.shape[0]))
