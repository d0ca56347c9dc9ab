"""Weights of 8 bits for an instruction that saturates: what it multiplies safely, and the excess.

``vpmaddubsw`` adds two products of unsigned by signed bytes in 16 bits, saturated. With data of 0
to 255, two weights whose positive part has a sum of at most 128, and whose negative part one of at
least -128, are safe: ``255 * 128 = 32,640 < 2**15``. Three ways make others safe:

- **Complements.** ``b * x = 255 * b - b * (255 - x)``: where the second byte of a pair of data is
  complemented, its weight changes its sign, and pairs of two signs are safe whatever they are. The
  first term is known when a model is built. A word is complemented where that makes its pairs safe
  for all output channels of a block.
- **Orders.** Four bytes make pairs in three ways. Where words of data are packed in several orders
  beside each other, a step takes the first whose pairs are safe, complemented or not.
- **Excess.** Otherwise one weight of a pair is cut, and what was cut off, a pair of itself and
  zero, is safe, too; it is multiplied in a step of its own.
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
# what a word's data are xor-ed with for each value of `complements`: the second bytes of its pairs
MASKS = (0, 0x0000FF00, 0xFF000000 - 2**32, 0xFF00FF00 - 2**32)
# bytes of a word in each order: as it is, its middle ones exchanged, its second and last one
ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 2, 1))
_BYTE = 255


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


def complements(weight: Array) -> Array:
    """Words that are safe if second bytes of their pairs are complemented: indices of `MASKS`.

    Parameters
    ----------
    weight
        ``(..., lanes, 2, 2)`` of int8: the pairs of a word, for each output channel of a block.

    Returns
    -------
    Array
        ``(...)`` of int32; 0 for words that are safe as they are, and for those that are not with
        any complement. A weight of -128 has no opposite.
    """
    wide = weight.astype(np.int16)
    first, second = wide[..., 0], wide[..., 1]
    unsafe = (np.abs(first + second) > _LIMIT).any(axis=-2)
    refused = (np.abs(first - second) > _LIMIT) | (second == np.iinfo(np.int8).min)
    safe = ~(unsafe & refused.any(axis=-2)).any(axis=-1)
    found: Array = np.where(safe, unsafe[..., 0] + 2 * unsafe[..., 1], 0).astype(np.int32)
    return found


def variants(weight: Array, orders: int) -> Array:
    """In which order of :data:`ORDERS`, and with which complement, words are safe.

    Parameters
    ----------
    weight
        As for :func:`complements`.
    orders
        How many may be taken; the first that is safe is.

    Returns
    -------
    Array
        ``(...)`` of int32, an index of :data:`ORDERS` times 4 and one of :data:`MASKS`; 0 for words
        that are safe as they are, and -1 for those that are not in any way.
    """
    found = np.full(weight.shape[:-3], -1, np.int32)
    for order in range(orders):
        left = found < 0
        ordered = in_order(weight[left], np.full(int(left.sum()), order))
        masks = complements(ordered)
        is_safe = (masks > 0) | ~split(ordered)[1].any(axis=(-3, -2, -1))
        found[left] = np.where(is_safe, order * len(MASKS) + masks, -1)
    return found


def in_order(weight: Array, orders: Array) -> Array:
    """Words ``(..., lanes, 2, 2)`` with their bytes in the order of each, an index ``(...)``."""
    taken = np.array(ORDERS)[orders][..., None, :]
    flat = weight.reshape(*weight.shape[:-2], WORD)
    ordered: Array = np.take_along_axis(flat, np.broadcast_to(taken, flat.shape), axis=-1)
    return ordered.reshape(weight.shape)


def complemented(weight: Array, masks: Array) -> tuple[Array, Array]:
    """Weights for complemented data, and what that takes off the sums of each output channel.

    Parameters
    ----------
    weight
        ``(..., lanes, 2, 2)`` of int8.
    masks
        As :func:`complements` returns them.

    Returns
    -------
    weight, missing
        As ``weight``, and ``(..., lanes)`` of int64.
    """
    chosen = np.stack([masks & 1, masks >> 1], axis=-1)[..., None, :]
    second = weight[..., 1]
    missing = _BYTE * (second.astype(np.int64) * chosen).sum(axis=-1)
    changed = weight.copy()
    changed[..., 1] = np.where(chosen, -second, second)
    return changed, missing


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


def excess_steps(weight: Array, lanes: int, orders: int = 1) -> int:
    """Steps that the excess of a block of output channels takes on average, rounded up.

    Parameters
    ----------
    weight
        ``(K, C, R, S)`` of int8.
    lanes
        Output channels of a block.
    orders
        Orders of its bytes in which a word may be taken.
    """
    channels = -(-weight.shape[1] // WORD) * WORD
    steps = words(weight, lanes, channels)
    pairs = steps.reshape(*steps.shape[:-1], WORD // 2, 2)
    unsafe = variants(pairs, orders) < 0
    return int(-(-unsafe.sum() // steps.shape[0]))
