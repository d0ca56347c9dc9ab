"""The reduction steps of each output block of INT8 kernels: weights, data offsets, and order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmconv.algorithms.integer.joined_steps import joined
from tvmconv.algorithms.integer.saturation import MASKS, complemented, in_order, split, variants
from tvmconv.core.tensor import Array


@dataclass(frozen=True)
class Steps:
    """The steps of all output blocks, in order of blocks; joined steps come first in each block.

    ``weights`` are ``(steps, lanes, 2, 2)`` of int8. ``places`` has the regular step of each step,
    and ``variants`` the index of a byte permutation times 4, plus the index of a mask. ``starts``
    are the first step of each part of each block, and the total. ``missing``, ``(blocks, lanes)``,
    corrects the accumulators for complemented data.
    """

    weights: Array
    places: Array
    variants: Array
    starts: Array
    missing: Array


def steps_of(given: Array, orders: int, complements: bool) -> Steps:
    """Dwords ``(blocks, regular steps, lanes, 2, 2)`` as steps whose products do not saturate.

    Data are stored in ``orders`` byte permutations. Without stored ``complements``, only steps
    without complement are joined.
    """
    found = np.maximum(variants(given, orders), 0)
    given, masks = in_order(given, found // len(MASKS)), found % len(MASKS)
    rest = split(complemented(given, masks)[0])[1]
    # dwords that no complement makes safe are not complemented
    plain = given - rest
    steps, kinds, places = _with_excess(plain, rest, found)
    present, masks = places >= 0, kinds % len(MASKS)
    partner, masks = joined(steps, masks, present, complements=complements)
    groups = [_paired(*block) for block in zip(partner, present, strict=True)]
    steps, missing = complemented(steps, masks)
    kinds = kinds - kinds % len(MASKS) + masks
    taken = [np.concatenate(parts) for parts in groups]

    def ordered(values: Array) -> Array:
        return np.concatenate([row[order] for row, order in zip(values, taken, strict=True)])

    sizes = [len(part) for parts in groups for part in parts]
    return Steps(
        ordered(steps),
        ordered(places),
        ordered(kinds),
        np.cumsum([0, *sizes]),
        missing.sum(axis=1),
    )


def _with_excess(plain: Array, rest: Array, variants_of: Array) -> tuple[Array, Array, Array]:
    """The dwords of each block, each followed by its excess if any: ``(blocks, n, ...)``.

    Also returns their variants, and the steps to which they belong, -1 after the last one.
    """
    blocks, regular = variants_of.shape
    has: Array = np.asarray(rest.any(axis=(2, 3, 4)))
    size = regular + int(has.sum(axis=1).max())
    steps = np.zeros((blocks, size, *plain.shape[2:]), np.int8)
    kinds, places = np.zeros((blocks, size), np.int32), np.full((blocks, size), -1, np.int32)
    for block in range(blocks):
        extra = np.flatnonzero(has[block])
        order = np.argsort(np.concatenate([np.arange(regular), extra]), kind="stable")
        every = slice(0, len(order))
        steps[block, every] = np.concatenate([plain[block], rest[block, extra]])[order]
        places[block, every] = np.concatenate([np.arange(regular), extra])[order]
        kinds[block, every] = variants_of[block, places[block, every]]
    return steps, kinds, places


def _paired(partner: Array, present: Array) -> list[Array]:
    """Dwords each followed by its partner, and dwords without a partner."""
    first = np.flatnonzero(partner > np.arange(len(partner)))
    pairs = np.stack([first, partner[first]], axis=-1).reshape(-1)
    return [pairs, np.flatnonzero(present & (partner < 0))]
