"""Concatenations that need no call, because what they join is computed in its place.

The parts of a joined tensor that lie one behind another, such as the channel blocks of one image,
are memory of it: their kernels write there, and whoever reads a part reads it there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmconv.program.arena import largest_sum
from tvmconv.program.places import Step, lives
from tvmconv.program.program import ALIGNMENT, Place


def computed_in_place(steps: Sequence[Step]) -> list[Step]:
    """The steps without the copies that joined tensors do not need.

    A part has memory from its first use to the last one of the whole, or of what that is a part of
    itself. Where this asks for more memory than the copy does the copy stays, and so it does of
    parts that another tensor holds already, that lie outside of the arena, or that would not be
    aligned.

    Parameters
    ----------
    steps
        In the order of execution. The buffers of those that :attr:`~Step.joins` are changed.
    """
    kept = list(steps)
    for step in steps:
        if not step.joins or not _can_hold(step):
            continue
        before = _most_bytes(kept)
        left = [other for other in kept if other is not step]
        _place_parts(step)
        if _most_bytes(left) <= before:
            kept = left
        else:
            for part in step.operands:
                part.whole, part.offset = None, 0
    return kept


def _can_hold(step: Step) -> bool:
    (whole,) = step.results
    if len(set(step.operands)) < len(step.operands):
        return False
    start = 0
    for part in step.operands:
        if part.place is not Place.ARENA or part.whole is not None or start % ALIGNMENT:
            return False
        start += part.bytes
    return whole.place is Place.ARENA and start == whole.bytes


def _place_parts(step: Step) -> None:
    start = 0
    for part in step.operands:
        part.whole, part.offset = step.results[0], start
        start += part.bytes


def _most_bytes(steps: Sequence[Step]) -> int:
    """What no plan of the arena can do without."""
    found = list(lives(steps).values())
    return largest_sum([life.bytes for life in found], found)
