"""Steps of bytes in twos: which words have products that may be added in 16 bits.

``vpmaddubsw`` leaves sums of two products in 16 bits. Where those of two steps are added before
``vpmaddwd`` makes 32 bits of them, two steps are three multiplications instead of four. All four
weights of a lane that meet in 16 bits are safe if their positive part has a sum of at most 128 and
their negative part one of at least -128, for ``255 * 128 = 32,640 < 2**15``: no sum on the way
leaves that range, whatever the data.

Steps of an output block may have any order, so that heavy words find light ones; and a word that
may be complemented (:mod:`tvmconv.algorithms.integer.saturation`) is complemented where it then
fits another.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

# words among which a partner is sought: neighbours, which lie near each other in the data
_GROUP = 64
# groups that are searched at a time, as many as caches hold
_CHUNK = 32
# half of the largest magnitude of the sum of weights of one sign
_FULL = 64
# bytes side by side: what brings a sum that is too large to 128, and 128
_TO_128, _BITS_128 = (np.uint64(byte * 0x0101010101010101) for byte in (127 - _FULL, 128))
# pairs of a word
_PAIRS = 2


def joined(steps: Array, masks: Array, present: Array, *, complements: bool) -> tuple[Array, Array]:
    """Partners of words, and with which complement they are multiplied.

    Parameters
    ----------
    steps
        ``(blocks, n, lanes, 2, 2)`` of int8: the words of each output block, for data without
        complement.
    masks
        ``(blocks, n)``, an index of :data:`tvmconv.algorithms.integer.saturation.MASKS` for each
        word with which it is safe.
    present
        ``(blocks, n)``, whether there is such a word.
    complements
        Whether words may be joined with complements of their data, or only as they are.

    Returns
    -------
    partner, masks
        ``(blocks, n)`` each. The index of the word's partner, or -1; and its mask, the one that was
        given where that will do.
    """
    blocks, count = present.shape
    groups = -(-count // _GROUP)
    size = -(-count // groups)

    def grouped(values: Array) -> Array:
        padding = [(0, 0), (0, groups * size - count)] + [(0, 0)] * (values.ndim - 2)
        return np.pad(values, padding).reshape(-1, size, *values.shape[2:])

    words, flips = grouped(steps), _flips(grouped(masks))
    there = grouped(present if complements else present & (masks == 0))
    chunks = [slice(at, at + _CHUNK) for at in range(0, len(words), _CHUNK)]
    partner = np.concatenate(
        [_partners(words[at], flips[at], there[at], complements) for at in chunks]
    )
    first, second = np.nonzero(partner > np.arange(size))
    others = partner[first, second]
    chosen = _chosen(
        words[first, second], words[first, others], flips[first, second], flips[first, others]
    )
    flips[first, second], flips[first, others] = chosen
    offset = np.arange(groups)[:, None] * size
    partner = partner.reshape(blocks, groups, size)
    found = np.where(partner >= 0, partner + offset, -1).reshape(blocks, -1)[:, :count]
    numbers = (flips[..., 0] + 2 * flips[..., 1]).reshape(blocks, -1)[:, :count]
    return found, numbers.astype(masks.dtype)


def _flips(masks: Array) -> Array:
    """Whether each pair's second weight changes its sign, ``(..., 2)``."""
    return np.stack([masks & 1, masks >> 1], axis=-1).astype(bool)


def _loads(pairs: Array, flipped: Array) -> Array:
    """How much of the range pairs ``(..., lanes, 2)`` take: ``(..., lanes / 4)`` of uint64.

    A byte for the positive and one for the negative weights of each lane: half of their sum,
    rounded up. Pairs that fit none have 65.
    """
    wide = pairs.astype(np.int16)
    turned = np.broadcast_to(flipped[..., None], wide.shape[:-1])
    first, second = wide[..., 0], np.where(turned, -wide[..., 1], wide[..., 1])
    positive = np.maximum(first, 0) + np.maximum(second, 0)
    halves = np.empty((*positive.shape, 2), np.uint8)
    halves[..., 0] = np.minimum((positive + 1) // 2, _FULL + 1)
    halves[..., 1] = np.minimum((positive - first - second + 1) // 2, _FULL + 1)
    # -128 has no opposite
    halves[second > np.iinfo(np.int8).max] = _FULL + 1
    found: Array = halves.reshape(*pairs.shape[:-2], 2 * pairs.shape[-2]).view(np.uint64)
    return found


def _fit(first: Array, second: Array) -> Array:
    """Whether no sum of two loads' bytes exceeds 64; loads' last axis is taken together."""
    over = np.zeros((), np.uint64)
    second = second + _TO_128
    for part in range(first.shape[-1]):
        over = over | (first[..., part] + second[..., part])
    return np.asarray((over & _BITS_128) == 0)


def _partners(words: Array, flips: Array, there: Array, complements: bool) -> Array:
    """Partners within groups, ``(groups, n)``: those that fit fewest words choose first.

    They take one that fits as it is, if there is one, for complements lie in other lines; of those
    the one that fits fewest others.
    """
    groups, size = there.shape
    plain = there[:, :, None] & there[:, None] & ~np.eye(size, dtype=bool)
    fits = plain.copy() if complements else plain
    for pair in range(_PAIRS):
        turned = flips[..., pair]
        loads = [
            _loads(words[:, :, :, pair], flipped)
            for flipped in ((turned, ~turned) if complements else (turned,))
        ]
        as_is = _fit(loads[0][:, :, None], loads[0][:, None])
        plain &= as_is
        if complements:
            across = _fit(loads[0][:, :, None], loads[1][:, None])
            turned_both = _fit(loads[1][:, :, None], loads[1][:, None])
            fits &= as_is | across | across.transpose(0, 2, 1) | turned_both
    degree = fits.sum(axis=-1, dtype=np.int16)
    none = np.int16(3 * size)
    cost = np.where(fits, degree[:, None] + np.where(plain, 0, size).astype(np.int16), none)
    partner = np.full(there.shape, -1)
    left, at = there.copy(), np.arange(groups)
    for word in np.argsort(degree, axis=-1, kind="stable").T:
        costs = np.where(left, cost[at, word], none)
        other = costs.argmin(axis=-1)
        found = np.flatnonzero(left[at, word] & (costs[at, other] < none))
        one, other = word[found], other[found]
        partner[found, one], partner[found, other] = other, one
        left[found, one] = left[found, other] = False
    return partner


def _chosen(first: Array, second: Array, flips: Array, others: Array) -> tuple[Array, Array]:
    """Signs ``(n, 2)`` with which words ``(n, lanes, 2, 2)`` fit, of fewest changes."""
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
