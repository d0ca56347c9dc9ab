"""Concatenations and slices that move nothing: their operands or results lie within one buffer.

A function with the attribute :data:`JOIN` writes its operands one after another, one with
:data:`PART` the bytes of its operand from that offset on. Where memory allows, what is joined is
computed at its place in the result, a part is read where it lies, and neither is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from tvmconv.program.places import Buffer, Step
from tvmconv.program.program import ALIGNMENT, Place

JOIN, PART = "tvmconv.join", "tvmconv.part"


def share_buffers(steps: Sequence[Step]) -> list[Step]:
    """Put buffers into others, and leave out the steps that have nothing to do then.

    Parameters
    ----------
    steps
        In the order of execution, results of the model in their places; buffers of the arena are
        changed. The last concatenation is placed first: one of what it joins, which an earlier one
        has joined before, as in dense blocks, then is a part of the same buffer.
    """
    done = {id(step) for step in steps if step.part is not None and _shares_part(step)}
    done |= {id(step) for step in reversed(steps) if step.joins and _shares_join(step)}
    return [step for step in steps if id(step) not in done]


def _shares_part(step: Step) -> bool:
    (result,), whole, offset = step.results, step.operands[0], step.part
    if result.place is not Place.ARENA or whole.place is not Place.ARENA or offset is None:
        return False
    if offset % ALIGNMENT or offset + result.bytes > whole.bytes:
        return False
    result.inside = whole, offset
    return True


def _shares_join(step: Step) -> bool:
    (result,), operands = step.results, step.operands
    sizes = [operand.bytes for operand in operands]
    starts = [0, *accumulate(sizes)]
    if result.place is not Place.ARENA or starts.pop() != result.bytes or not all(sizes):
        return False
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
        result.inside = first, base
        return True
    owner, at = result.root()
    moved: dict[Buffer, int] = {}
    covered: Counter[Buffer] = Counter()
    for (root, offset), start, size in zip(roots, starts, sizes, strict=True):
        place = at + start - offset
        if root is owner:
            if place:
                return False
            continue
        if root.place is not Place.ARENA or place % ALIGNMENT:
            return False
        if moved.setdefault(root, place) != place:
            return False
        covered[root] += size
    # what lies beside the joined parts of a buffer would lie outside of the result, or in another
    if any(covered[root] != root.bytes for root in moved) or len(set(operands)) < len(operands):
        return False
    for root, place in moved.items():
        root.inside = owner, place
    return True
