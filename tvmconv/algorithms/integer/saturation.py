"""Makes INT8 weights safe for ``vpmaddubsw``, which saturates.

``vpmaddubsw`` adds two products of unsigned by signed bytes in 16 bits, with saturation. For data
of 0 to 255, two weights are safe if their positive part sums to at most 128 and their negative part
to at least -128: ``255 * 128 = 32,640 < 2**15``. Three methods make other weights safe:

- **Sign complement.** ``b * x = 255 * b - b * (255 - x)``. If the second byte of a pair of data is
  complemented, its weight is negated, and pairs of opposite signs are always safe. The first term
  is known at build time. A dword is complemented if that makes its pairs safe for all output
  channels of a block.
- **Byte permutation.** Four bytes form pairs in three ways. If data are packed in several
  permutations, a step reads the first whose pairs are safe, complemented or not.
- **Excess.** Otherwise one weight of a pair is reduced. The remainder, paired with zero, is safe as
  well, and is multiplied in an additional step.
"""

from __future__ import annotations

import numpy as np

from tvmconv.core.tensor import Array

# maximum magnitude of the sum of two weights of one sign
_LIMIT = 128
# elements of a dword
DWORD = 4
# XOR masks of a dword's data by the value of `complements`: the second bytes of its pairs
MASKS = (0, 0x0000FF00, 0xFF000000 - 2**32, 0xFF00FF00 - 2**32)
# byte permutations of a dword: identity, middle bytes swapped, second and last byte swapped
ORDERS = ((0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 2, 1))
_BYTE = 255


def split(weight: Array) -> tuple[Array, Array]:
    """Split weights ``(..., 2)`` into safe pairs and the excess; both add up to the weights.

    Both are safe. The second element of each pair of excess is zero.

    Proof. Let ``a + b > 128``. Neither exceeds 127, so both are positive. The reduced weight
    ``a - (a + b - 128) = 128 - b`` is positive, and the excess is between 1 and 126.

    Let ``a + b < -128``. If one were positive, the other would be below -128, so neither is
    positive. The reduced weight ``-128 - b`` is between -128 and 0, and the excess between -128 and
    -1.

    All other pairs of one sign are within the limit. In pairs of opposite signs each part is one
    weight.
    """
    wide = weight.astype(np.int16)
    total = wide[..., 0] + wide[..., 1]
    rest = np.zeros_like(wide)
    rest[..., 0] = np.maximum(total - _LIMIT, 0) + np.minimum(total + _LIMIT, 0)
    return (wide - rest).astype(np.int8), rest.astype(np.int8)


def complements(weight: Array) -> Array:
    """The complements that make dwords ``(..., lanes, 2, 2)`` safe, as indices of `MASKS`.

    0 for dwords that are safe without complement, and for dwords that no complement makes safe.
    int8 cannot negate -128.
    """
    wide = weight.astype(np.int16)
    first, second = wide[..., 0], wide[..., 1]
    unsafe = (np.abs(first + second) > _LIMIT).any(axis=-2)
    refused = (np.abs(first - second) > _LIMIT) | (second == np.iinfo(np.int8).min)
    safe = ~(unsafe & refused.any(axis=-2)).any(axis=-1)
    found: Array = np.where(safe, unsafe[..., 0] + 2 * unsafe[..., 1], 0).astype(np.int32)
    return found


def variants(weight: Array, orders: int) -> Array:
    """The byte permutation in :data:`ORDERS`, and the complement, that make dwords safe.

    The first safe one of ``orders`` permutations is chosen. Results are an index of :data:`ORDERS`
    times 4 plus an index of :data:`MASKS`. 0 is for dwords that are safe unchanged, and -1 for
    dwords that cannot be made safe.
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
    """Dwords ``(..., lanes, 2, 2)`` with bytes permuted; ``orders`` has an index for each."""
    taken = np.array(ORDERS)[orders][..., None, :]
    flat = weight.reshape(*weight.shape[:-2], DWORD)
    ordered: Array = np.take_along_axis(flat, np.broadcast_to(taken, flat.shape), axis=-1)
    return ordered.reshape(weight.shape)


def complemented(weight: Array, masks: Array) -> tuple[Array, Array]:
    """Weights for complemented data, and the correction of each output channel's accumulator.

    ``masks`` are results of :func:`complements`.
    """
    chosen = np.stack([masks & 1, masks >> 1], axis=-1)[..., None, :]
    second = weight[..., 1]
    missing = _BYTE * (second.astype(np.int64) * chosen).sum(axis=-1)
    changed = weight.copy()
    changed[..., 1] = np.where(chosen, -second, second)
    return changed, missing


def dwords(weight: Array, lanes: int, channels: int) -> Array:
    """The dwords of a kernel in the order of its steps, ``(K/lanes, R, S, C/4, lanes, 4)`` int8.

    The weight is ``(K, C, R, S)``. Zeros pad the last vector of ``lanes`` output channels, and the
    last dword of ``channels``, a multiple of 4.
    """
    out_channels, in_channels, *taps = weight.shape
    blocks = -(-out_channels // lanes)
    padded = np.zeros((blocks * lanes, channels, *taps), np.int8)
    padded[:out_channels, :in_channels] = weight
    steps = padded.reshape(blocks, lanes, channels // DWORD, DWORD, *taps)
    return np.ascontiguousarray(steps.transpose(0, 4, 5, 2, 1, 3))


def excess_steps(weight: Array, lanes: int, orders: int = 1) -> int:
    """Average number of excess steps of a block of ``lanes`` output channels, rounded up.

    Dwords may be read in so many byte permutations (``orders``).
    """
    return excess_by_orders(weight, lanes, orders)[-1]


def excess_by_orders(weight: Array, lanes: int, orders: int = len(ORDERS)) -> tuple[int, ...]:
    """:func:`excess_steps` with one byte permutation, with two, up to ``orders`` of them."""
    channels = -(-weight.shape[1] // DWORD) * DWORD
    steps = dwords(weight, lanes, channels)
    found = variants(steps.reshape(*steps.shape[:-1], DWORD // 2, 2), orders)
    # the first permutation that is safe is among the first ones, or it is unsafe with those
    unsafe = [(found < 0) | (found >= count * len(MASKS)) for count in range(1, orders + 1)]
    return tuple(int(-(-each.sum() // steps.shape[0])) for each in unsafe)
