"""Concatenations and slices that move nothing: their operands or results are parts of one buffer.

A function with the attribute :data:`JOIN` writes its operands one after another. A function with
:data:`PART` copies the bytes of its operand from that offset on. If buffers can be shared, the
operands of a concatenation are computed in place, slices are read in place, and no call is made.
A shared buffer is alive from the first use of any part on. If this requires more memory than the
copy, the copy stays.

A function with :data:`COPY` copies its operand for a function that changes the copy. If nobody
reads the operand later, it is changed itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

from tvmconv.program.arena import largest_sum
from tvmconv.program.places import Buffer, Step, lives
from tvmconv.program.program import ALIGNMENT, Place

JOIN, PART, COPY = "tvmconv.join", "tvmconv.part", "tvmconv.copy"
# each buffer with the buffer that it becomes a part of, and the offset there
_Shares = list[tuple[Buffer, tuple[Buffer, int]]]


def share_buffers(steps: Sequence[Step]) -> list[Step]:
    """Make buffers parts of others, and return the steps that are left.

    Outputs of the model must be placed already. Buffers of the arena are changed.
    """
    before = _most_bytes(steps)
    kept = _shared(steps, checked=False)
    if _most_bytes(kept) > before:
        for buffer in {buffer for step in steps for buffer in step.buffers}:
            buffer.inside = None
        kept = _shared(steps, checked=True)
    return _without_copies(kept)


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


def _shared(steps: Sequence[Step], *, checked: bool) -> list[Step]:
    """The steps that are left; if ``checked``, no shared buffer by itself needs more memory."""
    kept = list(steps)
    parts = [(step, _part) for step in steps if step.part is not None]
    # the last one first: in dense blocks, earlier concatenations become parts of its buffer
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
    """A lower bound of the arena's size."""
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
