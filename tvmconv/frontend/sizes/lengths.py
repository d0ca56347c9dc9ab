"""Shape operands that a network computes from sizes that depend on the data.

A Reshape, for example, may read ``Concat(n, 4)``. Its elements are followed back to constants and
to sizes, so that the largest shape is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmconv.frontend.graph import OnnxNode
from tvmconv.frontend.ranges import IndexRanges
from tvmconv.frontend.sizes.maker import Maker

# producers that are followed
_DEPTH = 24
# elements are integers, or names of INT64 values of one element
Items = np.ndarray[Any, np.dtype[np.object_]]


class Lengths:
    """Finds the elements of small integer values of a graph."""

    def __init__(self, make: Maker) -> None:
        self._make, self._graph = make, make.graph
        self._ranges = IndexRanges(make.graph)
        self._largest = {
            extent.value: make.graph.shape(name)[extent.axis]
            for name, extent in make.graph.extents.items()
        }

    def of(self, name: str, depth: int = _DEPTH) -> Items | None:
        """The elements of a value; ``None`` if one is neither known nor a size of its own."""
        graph = self._graph
        if name in graph.constants:
            value = graph.constants[name]
            return value.astype(object) if value.dtype.kind in "iu" else None
        node = self._ranges.makers.get(name)
        if node is not None and depth and name not in self._largest:
            rule = _RULES.get(node.op)
            moved = rule(self, node, depth - 1) if rule else None
            if moved is not None:
                return moved
        shape = graph.shape(name)
        if shape not in ((), (1,)) or graph.types[name].dtype != "int64":
            return None
        return np.full(shape, name, object)

    def largest(self, item: int | str) -> int | None:
        """The largest value of an element that is not negative; ``None`` if it is unknown."""
        if not isinstance(item, str):
            return item
        if item in self._largest:
            return self._largest[item]
        known = self._ranges.of(item)
        return known[1] if known is not None and known[0] >= 0 else None

    def rest(self, item: int | str, extent: str) -> int | None:
        """The constant from which an element subtracts a size, if it does."""
        node = self._ranges.makers.get(item) if isinstance(item, str) else None
        if node is None or node.op != "Sub":
            return None
        total, size = (self.of(name) for name in node.inputs)
        if total is None or size is None or total.size != 1 or size.size != 1:
            return None
        found = total.reshape(-1)[0]
        return found if size.reshape(-1)[0] == extent and not isinstance(found, str) else None

    def operand(self, node: OnnxNode, place: int, depth: int) -> Items | None:
        """The elements of an input."""
        return self.of(node.input(place), depth) if node.input(place) else None

    def integers(self, node: OnnxNode, place: int) -> tuple[int, ...] | None:
        """The elements of a constant input; empty if it is absent, ``None`` if it is computed."""
        if not (name := node.input(place)):
            return ()
        value = self._graph.constants.get(name)
        return None if value is None else tuple(int(each) for each in value.reshape(-1))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a value."""
        return self._graph.shape(name)


def _same(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    """Operators that keep the order of elements."""
    items = lengths.operand(node, 0, depth)
    return None if items is None else items.reshape(lengths.shape(node.outputs[0]))


def _gather(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    items, index = lengths.operand(node, 0, depth), lengths.integers(node, 1)
    if items is None or items.ndim != 1 or index is None:
        return None
    shape = lengths.shape(node.inputs[1])
    return np.asarray(items[np.asarray(index, np.int64).reshape(shape)], object).reshape(shape)


def _concat(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    parts = [lengths.of(name, depth) for name in node.inputs]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return np.concatenate(known, int(node.attrs.get("axis", 0)))


def _slice(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    items = lengths.operand(node, 0, depth)
    lists = [lengths.integers(node, place) for place in (1, 2, 3, 4)]
    if items is None or node.opset < 10 or any(each is None for each in lists):
        return None
    starts, ends, axes, steps = (each or () for each in lists)
    cut = [slice(None)] * items.ndim
    axes = axes or tuple(range(len(starts)))
    for axis, start, end, step in zip(axes, starts, ends, steps or (1,) * len(axes), strict=True):
        # an end before the first element
        last = None if step < 0 and end < -items.shape[axis] else end
        cut[axis] = slice(start, last, step)
    return items[tuple(cut)]


def _transpose(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    items = lengths.operand(node, 0, depth)
    return None if items is None else items.transpose(node.ints("perm", range(items.ndim)[::-1]))


_RULES: Mapping[str, Callable[[Lengths, OnnxNode, int], Items | None]] = {
    "Cast": _same,
    "Concat": _concat,
    "Flatten": _same,
    "Gather": _gather,
    "Identity": _same,
    "Reshape": _same,
    "Slice": _slice,
    "Squeeze": _same,
    "Transpose": _transpose,
    "Unsqueeze": _same,
}
