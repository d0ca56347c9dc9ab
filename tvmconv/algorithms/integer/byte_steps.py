"""The steps of each output block of products of bytes: their weights, data, and order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvmconv.algorithms.integer.joined_steps import joined
from tvmconv.algorithms.integer.saturation import MASKS, complemented, in_order, split, variants

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Steps:
    """Steps of all output blocks, one block after the other: each begins with those in twos.

    Parameters
    ----------
    weights
        ``(steps, lanes, 2, 2)`` of int8.
    places
        The regular step that each belongs to, ``(steps,)``, and ``variants`` likewise: the index of
        an order of its word's bytes times 4, and that of a mask.
    starts
        The first step of each part of each block, and the number of all.
    missing
        ``(blocks, lanes)``: what complements take off the sums.
    """

    weights: Array
    places: Array
    variants: Array
    starts: Array
    missing: Array


def steps_of(given: Array, orders: int, beside: bool) -> Steps:
    """Words as steps whose products do not saturate.

    Parameters
    ----------
    given
        ``(blocks, regular steps, lanes, 2, 2)`` of int8.
    orders
        Orders of its bytes in which a word may be read.
    beside
        Whether complements lie beside the data. Else only steps that take no others are in twos.
    """
    found = np.maximum(variants(given, orders), 0)
    given, masks = in_order(given, found // len(MASKS)), found % len(MASKS)
    rest = split(complemented(given, masks)[0])[1]
    # words that no complement makes safe have none
    plain = given - rest
    steps, kinds, places = _with_excess(plain, rest, found)
    present, masks = places >= 0, kinds % len(MASKS)
    partner, masks = joined(steps, masks, present, complements=beside)
    groups = [_in_twos(*block) for block in zip(partner, present, strict=True)]
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
    """Words of each block and behind each its excess, if any: ``(blocks, n, ...)``.

    And their variants, and the regular steps they belong to, -1 behind the last.
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


def _in_twos(partner: Array, present: Array) -> list[Array]:
    """Words and their partners in turns, and words without."""
    first = np.flatnonzero(partner > np.arange(len(partner)))
    twos = np.stack([first, partner[first]], axis=-1).reshape(-1)
    return [twos, np.flatnonzero(present & (partner < 0))]
