"""Elements of several vectors, picked in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx


def windows(count: int, lanes: int) -> list[int]:
    """First elements of whole vectors that cover ``count`` elements, at least ``lanes`` of them.

    The last vector overlaps the previous one: nothing after the elements is read.
    """
    return [*range(0, count - lanes, lanes), count - lanes]


def window_of(place: int, starts: Sequence[int]) -> tuple[int, int]:
    """The vector that has an element, and its lane; vectors begin at ``starts``."""
    number = max(j for j, start in enumerate(starts) if start <= place)
    return number, place - starts[number]


def picked_lanes(vectors: Sequence[Any], picks: Sequence[tuple[int, int]]) -> Any:
    """Lanes of vectors of one length: the number of a vector, and the lane, of each element.

    There are at most as many elements as lanes. Each vector but the first takes one shuffle of two
    vectors, as ``vpermt2d``. LLVM divides a shuffle of more vectors into single elements.
    """
    lanes = int(vectors[0].ty.dtype.lanes)
    order = [lane if number == 0 else 0 for number, lane in picks]
    result = vectors[0]
    for number, vector in enumerate(vectors[1:], 1):
        order = [
            lanes + lane if owner == number else order[i] for i, (owner, lane) in enumerate(picks)
        ]
        if number < len(vectors) - 1:
            # TVM's operands have the same length
            result = tirx.Shuffle([result, vector], [*order, *range(len(order), lanes)])
            order = list(range(len(picks)))
        else:
            result = tirx.Shuffle([result, vector], order)
    return result if len(vectors) > 1 else tirx.Shuffle([result], order)
