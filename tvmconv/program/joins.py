"""Concatenations and slices that move nothing: their operands or results are parts of one buffer.

A function with the attribute :data:`JOIN` writes its operands one after another. A function with
:data:`PART` copies the bytes of its operand from that offset on. If buffers can be shared, the
operands of a concatenation are computed in place, slices are read in place, and no call is made.
Each part of a shared buffer is alive from its own first use on.

A function with :data:`COPY` copies its operand for a function that changes the copy. If nobody
reads the operand later, it is changed itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from tvmconv.program.places import Buffer, Step
from tvmconv.program.program import ALIGNMENT, Place

JOIN, PART, COPY = "tvmconv.join", "tvmconv.part", "tvmconv.copy"
# each buffer with the buffer that it becomes a part of, and the offset there
_Shares = list[tuple[Buffer, tuple[Buffer, int]]]


def share_buffers(steps: Sequence[Step]) -> list[Step]:
    """Make buffers parts of others, and return the steps that are left.

    Outputs of the model must be placed already. Buffers of the arena are changed.
    """
    return _without_copies(_shared(steps))


def _without_copies(steps: Sequence[Step]) -> list[Step]:
    """The steps without copies of buffers that nobody reads later."""
    kept: list[Step] = []
    for index, step in enumerate(steps):
        if step.copies and _is_last(step, steps[index + 1 :]):
            step.results[0].inside = (step.operands[0], 0)
        else:
            kept.append(step)
    return kept


def _is_last(step: Step, later: Sequence[Step]) -> bool:
    """Whether a copy may be its operand, because no later step reads a part of its memory."""
    (operand,), (result,) = step.operands, step.results
    root = operand.root()[0]
    free = {root.place, result.place} == {Place.ARENA} and result.inside is None
    return free and all(buffer.root()[0] is not root for each in later for buffer in each.buffers)


def _shared(steps: Sequence[Step]) -> list[Step]:
    """The steps that are left."""
    unneeded: set[Step] = set()
    parts = [(step, _part) for step in steps if step.part is not None]
    # the last one first: in dense blocks, earlier concatenations become parts of its buffer
    joins = [(step, _join) for step in reversed(steps) if step.joins]
    for step, shares_of in (*parts, *joins):
        shares = shares_of(step)
        if shares is not None:
            for buffer, place in shares:
                buffer.inside = place
            unneeded.add(step)
    return [step for step in steps if step not in unneeded]


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
    consecutive = roots == [(first, base + start) for start in starts]
    aligned = base % ALIGNMENT == 0
    if result.inside is None and aligned and consecutive and first is not operands[0]:
        # a later concatenation has made the operands consecutive already
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
    # other parts of a buffer would be outside of the result, or overlap another operand
    if any(covered[root] != root.bytes for root in moved) or len(set(operands)) < len(operands):
        return None
    return [(root, (owner, place)) for root, place in moved.items()]
