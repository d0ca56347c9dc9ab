"""Where the elements of a tensor are in the memory of an earlier tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

# a number of steps, and the distance of a step in elements
Part = tuple[int, int]


@dataclass(frozen=True)
class MemoryView:
    """For each axis its parts, outermost first, and the place of the first element.

    An axis of several parts is several axes of the memory in one. Distances of broadcast axes are
    0. An axis of one element has no parts.
    """

    axes: tuple[tuple[Part, ...], ...]
    offset: int = 0

    @classmethod
    def row_major(cls, dims: Sequence[int]) -> MemoryView:
        """The view of a tensor in its own memory."""
        distances = [*accumulate(reversed(dims), lambda a, b: a * b, initial=1)][-2::-1]
        return cls(tuple(_joined([part]) for part in zip(dims, distances, strict=True)))

    def transposed(self, order: Sequence[int]) -> MemoryView:
        """The view after a transposition."""
        return replace(self, axes=tuple(self.axes[axis] for axis in order))

    def sliced(self, ranges: Sequence[tuple[int, int, int]]) -> MemoryView | None:
        """The first index, the count and the step of each axis; None for parts of several parts."""
        axes, offset = [], self.offset
        for parts, (first, count, step) in zip(self.axes, ranges, strict=True):
            if count == prod(size for size, _ in parts) and (first, step) == (0, 1):
                axes.append(parts)
                continue
            if len(parts) != 1:
                return None
            ((_, distance),) = parts
            axes.append(_joined([(count, step * distance)]))
            offset += first * distance
        return MemoryView(tuple(axes), offset)

    def broadcast(self, dims: Sequence[int]) -> MemoryView:
        """The view of a shape to which the tensor is broadcast."""
        added = len(dims) - len(self.axes)
        own = ((),) * added + self.axes
        axes = (parts or _joined([(n, 0)]) for parts, n in zip(own, dims, strict=True))
        return replace(self, axes=tuple(axes))

    def reshaped(self, dims: Sequence[int]) -> MemoryView | None:
        """The view of another shape; None if an axis ends inside a part."""
        left = list(_joined([part for axis in self.axes for part in axis]))
        axes: list[tuple[Part, ...]] = []
        for wanted in reversed(dims):
            size, taken = wanted, []
            while size > 1:
                count, distance = left.pop()
                if max(size, count) % min(size, count):
                    return None
                taken.append((min(size, count), distance))
                if count > size:
                    left.append((count // size, distance * size))
                size = max(1, size // count)
            axes.append(_joined(taken[::-1]))
        return replace(self, axes=tuple(axes[::-1]))


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Parts without single elements, neighbors with one distance as one part."""
    joined: list[Part] = []
    for size, distance in parts:
        if joined and joined[-1][1] == size * distance:
            joined[-1] = (joined[-1][0] * size, distance)
        elif size != 1:
            joined.append((size, distance))
    return tuple(joined)
