"""Concatenations and slices that move nothing: their operands or results lie within one buffer.

A function with the attribute :data:`JOIN` writes its operands one after another, one with
:data:`PART` the bytes of its operand from that offset on. Where memory allows, what is joined is
computed at its place in the result, a part is read where it lies, and neither is called. What is
joined has the memory of the whole from its first use on: where this asks for more memory than the
copy does, the copy stays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from tvmconv.program.arena import largest_sum
from tvmconv.program.places import Buffer, Step, lives
from tvmconv.program.program import ALIGNMENT, Place

JOIN, PART = "tvmconv.join", "tvmconv.part"
# buffers, each with the one that it is to be a part of and the offset there
_Shares = list[tuple[Buffer, tuple[Buffer, int]]]


def share_buffers(steps: Sequence[Step]) -> list[Step]:
    """Put buffers into others, and leave out the steps that have nothing to do then.

    Parameters
    ----------
    steps
        In the order of execution, results of the model in their places; buffers of the arena are
        changed. The last concatenation is placed first: one of what it joins, which an earlier one
        has joined before, as in dense blocks, then is a part of the same buffer.
    """
    before = _most_bytes(steps)
    kept = _shared(steps, checked=False)
    if _most_bytes(kept) <= before:
        return kept
    for buffer in {buffer for step in steps for buffer in step.buffers}:
        buffer.inside = None
    return _shared(steps, checked=True)


def _shared(steps: Sequence[Step], *, checked: bool) -> list[Step]:
    """What is left of the steps; if checked, none shares that alone takes more memory."""
    kept = list(steps)
    parts = [(step, _part) for step in steps if step.part is not None]
    joins = [(step, _join) for step in reversed(steps) if step.joins]
    for step, shares_of in (*parts, *joins):
        shares = shares_of(step)
        if shares is None:
            continue
        before = _most_bytes(kept) if checked else 0
        for buffer, place in shares:
            buffer.inside = place
        left = [other for other in kept if other is not step]
        if checked and _most_bytes(left) > before:
            for buffer, _ in shares:
                buffer.inside = None
        else:
            kept = left
    return kept


def _most_bytes(steps: Sequence[Step]) -> int:
    """What no plan of the arena can do without."""
    found = list(lives(steps).values())
    return largest_sum([life.bytes for life in found], found)


def _part(step: Step) -> _Shares | None:
    (result,), whole, offset = step.results, step.operands[0], step.part
    if result.place is not Place.ARENA or whole.place is not Place.ARENA or offset is None:
        return None
    if offset % ALIGNMENT or offset + result.bytes > whole.bytes:
        return None
    return [(result, (whole, offset))]


def _join(step: Step) -> _Shares | None:
    (result,), operands = step.results, step.operands
    sizes = [operand.bytes for operand in operands]
    starts = [0, *accumulate(sizes)]
    if result.place is not Place.ARENA or starts.pop() != result.bytes or not all(sizes):
        return None
    roots = [operand.root() for operand in operands]
    first, base = roots[0]
    lying = [(first, base + start) for start in starts]
    if (
        result.inside is None
        and base % ALIGNMENT == 0
        and roots == lying
        and first is not operands[0]
    ):
        # they follow each other already, within what a later concatenation joins
        return [(result, (first, base))]
    owner, at = result.root()
    moved: dict[Buffer, int] = {}
    covered: Counter[Buffer] = Counter()
    for (root, offset), start, size in zip(roots, starts, sizes, strict=True):
        place = at + start - offset
        if root is owner:
            if place:
                return None
            continue
        if root.place is not Place.ARENA or place % ALIGNMENT:
            return None
        if moved.setdefault(root, place) != place:
            return None
        covered[root] += size
    # what lies beside the joined parts of a buffer would lie outside of the result, or in another
    if any(covered[root] != root.bytes for root in moved) or len(set(operands)) < len(operands):
        return None
    return [(root, (owner, place)) for root, place in moved.items()]
