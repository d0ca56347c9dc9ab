"""Joins reduction steps of INT8 kernels in pairs whose products can be added in 16 bits.

``vpmaddubsw`` leaves sums of two products in 16 bits. Two joined steps add these sums before one
``vpmaddwd`` widens them to 32 bits, so that they take three multiplications in place of four. The
four weights of a lane that are added in 16 bits are safe under two conditions. Their positive part
sums to at most 128, and their negative part to at least -128. As ``255 * 128 = 32,640 < 2**15``, no
partial sum overflows for any data.

The order of steps in an output block is free, so that dwords with large weights can be joined with
dwords of small weights. A dword may be complemented
(:mod:`tvmconv.algorithms.integer.saturation`) if it then fits another.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from tvmconv.core.tensor import Array

# partners are searched within so many neighboring dwords, whose data are close in memory
_GROUP = 64
# groups that are searched at a time, limited by cache size
_CHUNK = 32
# half of the maximum sum of weights of one sign
_FULL = 64
# a byte in all bytes of a uint64: the bias that moves sums above the limit to 128, and bit 7
_TO_128, _BITS_128 = (np.uint64(byte * 0x0101010101010101) for byte in (127 - _FULL, 128))
# pairs of elements in a dword
_PAIRS = 2


def joined(steps: Array, masks: Array, present: Array, *, complements: bool) -> tuple[Array, Array]:
    """Partners of dwords, and the complements with which they are multiplied.

    ``steps`` are the dwords of each output block, ``(blocks, n, lanes, 2, 2)`` of int8, for data
    without complement. ``masks`` are indices of :data:`tvmconv.algorithms.integer.saturation.MASKS`
    with which each dword is safe, and ``present`` tells whether the dword exists. With
    ``complements``, dwords may be joined with complemented data.

    Returns the index of each dword's partner, or -1, and its mask. The given mask is preferred.
    """
    blocks, count = present.shape
    groups = -(-count // _GROUP)
    size = -(-count // groups)

    def grouped(values: Array) -> Array:
        padding = [(0, 0), (0, groups * size - count)] + [(0, 0)] * (values.ndim - 2)
        return np.pad(values, padding).reshape(-1, size, *values.shape[2:])

    dwords, flips = grouped(steps), _flips(grouped(masks))
    there = grouped(present if complements else present & (masks == 0))
    chunks = [slice(at, at + _CHUNK) for at in range(0, len(dwords), _CHUNK)]
    partner = np.concatenate(
        [_partners(dwords[at], flips[at], there[at], complements) for at in chunks]
    )
    first, second = np.nonzero(partner > np.arange(size))
    others = partner[first, second]
    chosen = _chosen(
        dwords[first, second], dwords[first, others], flips[first, second], flips[first, others]
    )
    flips[first, second], flips[first, others] = chosen
    offset = np.arange(groups)[:, None] * size
    partner = partner.reshape(blocks, groups, size)
    found = np.where(partner >= 0, partner + offset, -1).reshape(blocks, -1)[:, :count]
    numbers = (flips[..., 0] + 2 * flips[..., 1]).reshape(blocks, -1)[:, :count]
    return found, numbers.astype(masks.dtype)


def _flips(masks: Array) -> Array:
    """Whether the second weight of each pair is negated, ``(..., 2)``."""
    return np.stack([masks & 1, masks >> 1], axis=-1).astype(bool)


def _loads(pairs: Array, flipped: Array) -> Array:
    """The range that pairs ``(..., lanes, 2)`` use: ``(..., lanes / 4)`` of uint64.

    Each lane has a byte for its positive and one for its negative weights: half of their sum,
    rounded up. Pairs that fit no other have 65.
    """
    wide = pairs.astype(np.int16)
    negated = np.broadcast_to(flipped[..., None], wide.shape[:-1])
    first, second = wide[..., 0], np.where(negated, -wide[..., 1], wide[..., 1])
    positive = np.maximum(first, 0) + np.maximum(second, 0)
    used = np.empty((*positive.shape, 2), np.uint8)
    used[..., 0] = np.minimum((positive + 1) // 2, _FULL + 1)
    used[..., 1] = np.minimum((positive - first - second + 1) // 2, _FULL + 1)
    # int8 cannot negate -128
    used[second > np.iinfo(np.int8).max] = _FULL + 1
    found: Array = used.reshape(*pairs.shape[:-2], 2 * pairs.shape[-2]).view(np.uint64)
    return found


def _fit(first: Array, second: Array) -> Array:
    """Whether no sum of two loads' bytes exceeds 64, for all lanes of the last axis."""
    over = np.zeros((), np.uint64)
    second = second + _TO_128
    for part in range(first.shape[-1]):
        over = over | (first[..., part] + second[..., part])
    return np.asarray((over & _BITS_128) == 0)


def _partners(dwords: Array, flips: Array, there: Array, complements: bool) -> Array:
    """Partners within groups, ``(groups, n)``; dwords with the fewest candidates choose first.

    They prefer a partner that fits without a new complement, because complements are in other cache
    lines. Among these they choose the partner with the fewest candidates.
    """
    groups, size = there.shape
    plain = there[:, :, None] & there[:, None] & ~np.eye(size, dtype=bool)
    fits = plain.copy() if complements else plain
    for pair in range(_PAIRS):
        flipped = flips[..., pair]
        loads = [
            _loads(dwords[:, :, :, pair], each)
            for each in ((flipped, ~flipped) if complements else (flipped,))
        ]
        as_is = _fit(loads[0][:, :, None], loads[0][:, None])
        plain &= as_is
        if complements:
            across = _fit(loads[0][:, :, None], loads[1][:, None])
            both = _fit(loads[1][:, :, None], loads[1][:, None])
            fits &= as_is | across | across.transpose(0, 2, 1) | both
    degree = fits.sum(axis=-1, dtype=np.int16)
    none = np.int16(3 * size)
    cost = np.where(fits, degree[:, None] + np.where(plain, 0, size).astype(np.int16), none)
    partner = np.full(there.shape, -1)
    left, at = there.copy(), np.arange(groups)
    for dword in np.argsort(degree, axis=-1, kind="stable").T:
        costs = np.where(left, cost[at, dword], none)
        other = costs.argmin(axis=-1)
        found = np.flatnonzero(left[at, dword] & (costs[at, other] < none))
        one, other = dword[found], other[found]
        partner[found, one], partner[found, other] = other, one
        left[found, one] = left[found, other] = False
    return partner


def _chosen(first: Array, second: Array, flips: Array, others: Array) -> tuple[Array, Array]:
    """Signs ``(n, 2)`` with which dwords ``(n, lanes, 2, 2)`` fit, with the fewest changes."""
    flips, others = flips.copy(), others.copy()
    for pair in range(_PAIRS):
        found = np.zeros(len(first), bool)
        given = flips[:, pair].copy(), others[:, pair].copy()
        for changes in sorted(product((False, True), repeat=2), key=sum):
            mine, theirs = (old ^ change for old, change in zip(given, changes, strict=True))
            loads = _loads(first[:, :, pair], mine), _loads(second[:, :, pair], theirs)
            fits = _fit(*loads) & ~found
            flips[fits, pair], others[fits, pair] = mine[fits], theirs[fits]
            found |= fits
    return flips, others
