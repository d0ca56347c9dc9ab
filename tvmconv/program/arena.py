"""Static places for buffers whose lives are known.

The problem (intervals in time, heights in memory) has no fast exact solution. Buffers are placed
one by one at an offset that is free for all of their life; the order and the rule decide what is
wasted, so several are tried, and then the buffers that stick out are placed earlier.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# pairs of buffers that are compared in all trials together; about ten million a second
_WORK = 20_000_000
_LIFTS = 200


@dataclass(frozen=True)
class Life:
    """A buffer: its size, and the first and the last call that uses it."""

    bytes: int
    first: int
    last: int


@dataclass(frozen=True)
class Plan:
    """Offsets in bytes by buffer, the bytes in all, and what no plan can do without."""

    offsets: tuple[int, ...]
    bytes: int
    bound: int


def plan(lives: Sequence[Life], alignment: int) -> Plan:
    """Place buffers so that none overlap that are alive at a time.

    Parameters
    ----------
    lives
        The buffers. One of 0 bytes lies at 0.
    alignment
        Every offset is a multiple of it.

    Returns
    -------
    Plan
        The smallest that was found; the same for the same buffers on every machine.
    """
    bound = largest_sum([life.bytes for life in lives], lives)
    chosen = [index for index, life in enumerate(lives) if life.bytes]
    trials = _Trials([lives[index] for index in chosen], alignment)
    offsets = [0] * len(lives)
    for index, offset in zip(chosen, trials.best(), strict=True):
        offsets[index] = offset
    ends = (offset + life.bytes for offset, life in zip(offsets, lives, strict=True))
    return Plan(tuple(offsets), max(ends, default=0), bound)


def largest_sum(sizes: Sequence[int], lives: Sequence[Life]) -> int:
    """The largest sum of sizes that are alive at a time."""
    changes: list[tuple[int, int]] = []
    for size, life in zip(sizes, lives, strict=True):
        changes += [(life.first, size), (life.last + 1, -size)]
    total = most = 0
    for _time, change in sorted(changes):
        total += change
        most = max(most, total)
    return most


class _Trials:
    """Plans of the same buffers by different orders and rules."""

    def __init__(self, lives: Sequence[Life], alignment: int) -> None:
        self.lives = lives
        # whole units, so that every place is aligned
        self.sizes = [-(-life.bytes // alignment) * alignment for life in lives]
        self.bound = largest_sum(self.sizes, lives)
        self.conflicts = _conflicts(lives)
        self.pairs = len(lives) + sum(map(len, self.conflicts))

    def best(self) -> list[int]:
        """Offsets of the best plan within the work allowed."""
        work, found, height, order = _WORK, [0] * len(self.lives), -1, list[int]()
        for candidate, rule in self._orders():
            offsets = self._place(candidate, rule)
            if height < 0 or self._height(offsets) < height:
                found, height, order, best_rule = offsets, self._height(offsets), candidate, rule
            work -= self.pairs
            if height <= self.bound or work < 0:
                return found
        for _ in range(_LIFTS):
            work -= self.pairs
            if height <= self.bound or work < 0:
                break
            order = self._lifted(order, found)
            offsets = self._place(order, best_rule)
            if self._height(offsets) <= height:
                found, height = offsets, self._height(offsets)
        return found

    def _height(self, offsets: Sequence[int]) -> int:
        return max(map(int.__add__, offsets, self.sizes), default=0)

    def _orders(self) -> Iterator[tuple[list[int], _Rule]]:
        lives, sizes, conflicts = self.lives, self.sizes, self.conflicts
        spans = [life.last - life.first + 1 for life in lives]
        keys: list[Callable[[int], tuple[int, int]]] = [
            lambda i: (-sizes[i], lives[i].first),
            lambda i: (-sizes[i] * spans[i], lives[i].first),
            lambda i: (-spans[i], -sizes[i]),
            lambda i: (lives[i].first, -sizes[i]),
            lambda i: (-lives[i].last, -sizes[i]),
            lambda i: (-sum(sizes[j] for j in conflicts[i]) - sizes[i], lives[i].first),
        ]
        for key in keys:
            order = sorted(range(len(lives)), key=key)
            yield from ((order, rule) for rule in (_lowest, _tightest))

    def _place(self, order: Sequence[int], rule: _Rule) -> list[int]:
        offsets = [-1] * len(self.lives)
        for index in order:
            taken = sorted(
                (offsets[other], offsets[other] + self.sizes[other])
                for other in self.conflicts[index]
                if offsets[other] >= 0
            )
            offsets[index] = rule(self.sizes[index], taken)
        return offsets

    def _lifted(self, order: Sequence[int], offsets: Sequence[int]) -> list[int]:
        """The order with the highest buffer before the largest that it is in conflict with."""
        top = max(range(len(offsets)), key=lambda i: (offsets[i] + self.sizes[i], -i))
        position = {index: place for place, index in enumerate(order)}
        before = [j for j in self.conflicts[top] if position[j] < position[top]]
        target = max(before, key=lambda j: (position[j], self.sizes[j]), default=top)
        rest = [index for index in order if index != top]
        at = rest.index(target) if target != top else 0
        return [*rest[:at], top, *rest[at:]]


# (size, taken places by offset) -> offset
_Rule = Callable[[int, Sequence[tuple[int, int]]], int]


def _lowest(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """First fit."""
    end = 0
    for start, stop in taken:
        if start - end >= size:
            return end
        end = max(end, stop)
    return end


def _tightest(size: int, taken: Sequence[tuple[int, int]]) -> int:
    """Best fit: the smallest gap that is large enough."""
    end, gap, found = 0, -1, -1
    for start, stop in taken:
        if start - end >= size and (found < 0 or start - end < gap):
            found, gap = end, start - end
        end = max(end, stop)
    return end if found < 0 else found


def _conflicts(lives: Sequence[Life]) -> list[list[int]]:
    """For each buffer those that are alive at some time of its life."""
    conflicts: list[list[int]] = [[] for _ in lives]
    alive: list[tuple[int, int]] = []  # by the last call
    for index in sorted(range(len(lives)), key=lambda i: lives[i].first):
        life = lives[index]
        del alive[: bisect_right(alive, (life.first - 1, len(lives)))]
        for _last, other in alive:
            conflicts[index].append(other)
            conflicts[other].append(index)
        insort(alive, (life.last, index))
    return conflicts
