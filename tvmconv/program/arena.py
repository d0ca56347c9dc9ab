"""Static memory offsets for buffers with known lifetimes.

The problem (intervals in time, heights in memory) has no fast exact solution. Buffers are placed
one by one in the smallest gap that is free for their whole lifetime. A buffer is placed at the end
of the gap whose adjacent buffer lives longer, so that the memory that becomes free is contiguous.

The wasted memory depends on the order. A few orders are tried. Then buffers that found no gap are
moved to earlier places again and again (squeaky wheel optimization; Joslin and Clements, JAIR 10,
1999).

A buffer can have parts with lifetimes of their own, such as the operands of a concatenation. The
parts keep their order, and other buffers use the memory of parts that are not alive.

Many plans have the same height. In the last step, buffers move to memory that was used shortly
before, because it is still in the caches. Other memory is fetched from DRAM before it is
overwritten.
"""

from __future__ import annotations

import random
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

# pairs of buffers that are compared in all trials together: about three seconds
_WORK = 5_000_000
# trials without a better plan before the search returns to the best order
_PATIENCE = 30
_FOREVER = 1 << 62
# moves to recently used memory: passes, earlier buffers that are considered for each buffer, and
# the maximum number of buffers
_PASSES = 3
_OWNERS = 8
_MOST_MOVED = 1000


@dataclass(frozen=True)
class Life:
    """A buffer or a part of it: its size, and the first and the last call that uses it."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class ArenaPlan:
    """Offsets in bytes by buffer, the total bytes, and a lower bound of the total."""

    offsets: tuple[int, ...]
    bytes: int
    bound: int


def plan(buffers: Sequence[Sequence[Life]], alignment: int) -> ArenaPlan:
    """The smallest plan found in which parts that are alive at the same time do not overlap.

    Each buffer is given by its parts, one after another. Only the size of the last part may be
    other than a multiple of ``alignment``. Every offset is a multiple of ``alignment``. The plan of
    given buffers is the same on every machine.
    """
    bound = largest_sum(life for parts in buffers for life in parts)
    sizes = [sum(life.bytes for life in parts) for parts in buffers]
    chosen = [index for index, size in enumerate(sizes) if size]
    trials = _Trials([buffers[index] for index in chosen], alignment)
    offsets = [0] * len(buffers)
    for index, offset in zip(chosen, trials.warmed(trials.best()), strict=True):
        offsets[index] = offset
    ends = (offset + size for offset, size in zip(offsets, sizes, strict=True))
    return ArenaPlan(tuple(offsets), max(ends, default=0), bound)


def largest_sum(lives: Iterable[Life]) -> int:
    """The largest sum of sizes of parts that are alive at the same time."""
    changes: list[tuple[int, int]] = []
    for life in lives:
        changes += [(life.first, life.bytes), (life.last + 1, -life.bytes)]
    total = most = 0
    for _time, change in sorted(changes):
        total += change
        most = max(most, total)
    return most


class _Trials:
    """Plans of the same buffers by different orders."""

    def __init__(self, buffers: Sequence[Sequence[Life]], alignment: int) -> None:
        self.alignment = alignment
        # whole units, so that every place is aligned
        aligned = [
            [replace(life, bytes=-(-life.bytes // alignment) * alignment) for life in parts]
            for parts in buffers
        ]
        self.lives = [
            Life(
                sum(p.bytes for p in parts), min(p.first for p in parts), max(p.last for p in parts)
            )
            for parts in aligned
        ]
        self.sizes = [life.bytes for life in self.lives]
        self.spans = [life.last - life.first + 1 for life in self.lives]
        self.bound = largest_sum(life for parts in aligned for life in parts)
        self.conflicts = _conflicts(aligned)

    def best(self) -> list[int]:
        """Offsets of the best plan within the work allowed."""
        trials = _WORK // (len(self.lives) + sum(map(len, self.conflicts)) + 1)
        order, offsets = list[int](), list[int]()
        for candidate in self._orders():
            found = self._place(candidate, self.bound)
            if not order or self._height(found) < self._height(offsets):
                order, offsets = candidate, found
            trials -= 1
            if trials < 0 or self._height(offsets) <= self.bound:
                return offsets
        return self._improved(order, offsets, trials)

    def _improved(self, best: list[int], offsets: list[int], trials: int) -> list[int]:
        # the same plan in every build of a network
        chance = random.Random(0)
        height = self._height(offsets)
        order, found, failures = best, offsets, 0
        for _ in range(trials):
            if height <= self.bound:
                break
            if failures > _PATIENCE:
                order, found, failures = best, offsets, 0
            # a limit closer to the bound fails too often to learn from
            limit = self.bound + (height - self.bound) // (2 * self.alignment) * self.alignment
            rank = {index: float(place) for place, index in enumerate(order)}
            for index in order:
                if found[index] + self.sizes[index] > limit:
                    rank[index] *= chance.random()
            order = sorted(order, key=rank.__getitem__)
            found = self._place(order, limit)
            failures += 1
            if self._height(found) < height:
                best, offsets, failures = order, found, 0
                height = self._height(offsets)
        return offsets

    def warmed(self, offsets: Sequence[int]) -> list[int]:
        """A plan of the same height or less that uses memory again sooner."""
        moved = list(offsets)
        if len(moved) > _MOST_MOVED:
            return moved
        limit, clock = self._height(offsets), self._clock()
        order = sorted(range(len(moved)), key=lambda index: self.lives[index].first)
        by_end = sorted(order, key=lambda index: -self.lives[index].last)
        for _ in range(_PASSES):
            before = list(moved)
            for index in order:
                first = self.lives[index].first
                earlier = [other for other in by_end if self.lives[other].last < first]
                ages = [
                    (self._age(index, place, moved, earlier, clock), place != moved[index], place)
                    for place in self._places(index, moved, earlier[:_OWNERS], limit)
                ]
                moved[index] = min(ages)[-1]
            if moved == before:
                break
        return moved

    def _clock(self) -> list[int]:
        """Bytes of buffers that are used for the first or the last time before each call."""
        used = [0] * (max((life.last for life in self.lives), default=-1) + 2)
        for life, size in zip(self.lives, self.sizes, strict=True):
            used[life.first + 1] += size
            used[life.last + 1] += size * (life.last > life.first)
        return list(accumulate(used))

    def _places(
        self, index: int, offsets: Sequence[int], owners: Sequence[int], limit: int
    ) -> set[int]:
        """Offsets that fit: the ends of gaps, and the ends of recent owners of the memory."""
        size, end = self.sizes[index], 0
        starts = {offsets[owner] for owner in owners}
        starts |= {offsets[owner] + self.sizes[owner] - size for owner in owners}
        taken = [
            (offsets[other] + low, offsets[other] + high)
            for other, low, high in self.conflicts[index]
        ]
        places = set()
        for low, high in [*sorted(taken), (limit - size, limit)]:
            if end <= low:
                places |= {end, low, *(place for place in starts if end <= place <= low)}
            end = max(end, high)
        return places

    def _age(
        self,
        index: int,
        place: int,
        offsets: Sequence[int],
        earlier: Sequence[int],
        clock: Sequence[int],
    ) -> int:
        """Sum over a buffer's bytes of the bytes used since the last use of each byte."""
        unused = [(place, place + self.sizes[index])]
        now = clock[self.lives[index].first]
        age = 0
        for other in earlier:
            start, stop = offsets[other], offsets[other] + self.sizes[other]
            if start >= place + self.sizes[index] or stop <= place:
                continue
            parts, unused = unused, []
            for left, right in parts:
                both = max(0, min(right, stop) - max(left, start))
                age += both * (now - clock[self.lives[other].last + 1])
                sides = (left, min(right, start)), (max(left, stop), right)
                unused += [(low, high) for low, high in sides if low < high]
            if not unused:
                break
        return age + sum(right - left for left, right in unused) * clock[-1]

    def _height(self, offsets: Sequence[int]) -> int:
        return max(map(int.__add__, offsets, self.sizes), default=0)

    def _orders(self) -> Iterator[list[int]]:
        lives, sizes, spans = self.lives, self.sizes, self.spans
        conflict_bytes = [
            size + sum(sizes[j] for j in {other for other, _, _ in conflicts})
            for size, conflicts in zip(sizes, self.conflicts, strict=True)
        ]
        for key in (
            lambda i: (lives[i].first, -spans[i], -sizes[i]),
            lambda i: (-lives[i].last, -spans[i], -sizes[i]),
            lambda i: (-sizes[i], lives[i].first),
            lambda i: (-sizes[i] * spans[i], lives[i].first),
            lambda i: (-spans[i], -sizes[i]),
            lambda i: (-conflict_bytes[i], lives[i].first),
        ):
            yield sorted(range(len(lives)), key=key)

    def _place(self, order: Sequence[int], limit: int) -> list[int]:
        """Offsets, where possible so that all ends are within the limit."""
        offsets = [-1] * len(self.lives)
        for index in order:
            taken = [
                (offsets[other] + low, offsets[other] + high, self.spans[other])
                for other, low, high in self.conflicts[index]
                if offsets[other] >= 0
            ]
            offsets[index] = _tightest(sorted(taken), limit - self.sizes[index])
        return offsets


def _tightest(taken: Sequence[tuple[int, int, int]], limit: int) -> int:
    """The offset where the buffer fits most tightly, or the first one after all conflicts.

    ``taken`` holds the lower and the upper end of offsets that conflict with another buffer, and
    the lifetime of that buffer. Both ends are free. The entries are sorted.
    """
    end, stays, found, smallest = 0, _FOREVER, -1, _FOREVER
    for low, high, span in [*taken, (limit, limit, _FOREVER)]:
        if 0 <= low - end < smallest:
            found, smallest = (end if stays >= span else low), low - end
        if high > end:
            end, stays = high, span
        elif high == end:
            stays = max(stays, span)
    return found if found >= 0 else end


def _conflicts(buffers: Sequence[Sequence[Life]]) -> list[list[tuple[int, int, int]]]:
    """The conflicts of each buffer: another buffer, and which distances from it are not possible.

    Distances between the last two numbers let parts overlap that are alive at the same time.
    """
    parts = [
        (life.first, life.last, owner, start, life.bytes)
        for owner, lives in enumerate(buffers)
        for life, start in zip(lives, accumulate((p.bytes for p in lives), initial=0), strict=False)
    ]
    conflicts: list[list[tuple[int, int, int]]] = [[] for _ in buffers]
    alive: list[tuple[int, int, int, int]] = []  # by the last call
    for first, last, owner, start, size in sorted(parts):
        del alive[: bisect_right(alive, (first, -1, 0, 0))]
        for _last, other, place, length in alive:
            if other != owner:
                low, high = place - start - size, place + length - start
                conflicts[owner].append((other, low, high))
                conflicts[other].append((owner, -high, -low))
        insort(alive, (last, owner, start, size))
    return conflicts
