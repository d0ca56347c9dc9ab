"""Shape operands that a network computes from sizes that depend on the data.

A Reshape, for example, may read ``Concat(n, 4)``. Its elements are followed back to constants and
to sizes, so that the largest shape is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tvmconv.frontend.graph import Array, OnnxNode
from tvmconv.frontend.ranges import IndexRanges
from tvmconv.frontend.sizes.maker import Maker

# producers that are followed
_DEPTH = 24
# an integer, or the name of an INT64 value of one element
Item = int | str
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
            return value.astype(object) if value.dtype.kind in "iub" else None
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

    def constant_part(self, node: OnnxNode) -> Array | None:
        """The elements that a Gather or Slice takes of a shape, if they are fixed."""
        if self.shape(node.inputs[0])[1:] or self._graph.types[node.inputs[0]].dtype != "int64":
            return None
        items = _RULES[node.op](self, node, _DEPTH)
        if items is None or any(isinstance(item, str) for item in items.flat):
            return None
        return items.astype(np.int64)

    def largest(self, item: Item) -> int | None:
        """The largest value of an element that is not negative; ``None`` if it is unknown."""
        if not isinstance(item, str):
            return item
        if item in self._largest:
            return self._largest[item]
        known = self._ranges.of(item)
        return known[1] if known is not None and known[0] >= 0 else None

    def bound(self, item: Item) -> int | None:
        """The largest value of an element that may be negative; ``None`` if it is unknown."""
        known = self.largest(item)
        if known is None and isinstance(item, str):
            highest = self._ranges.highest(item)
            return highest and max(highest, 0)
        return known

    def size(self, item: str) -> str:
        """An element as a size, which is not negative."""
        value = self._make.size(item)
        return value if self.largest(item) is not None else self._make.calculated("Max", value, 0)

    def total(self, *items: Item) -> int | None:
        """The sum of elements if it is a constant, such as ``4 * (30 - n)`` and ``4 * n``."""
        terms = Counter[str]()
        for item in items:
            for name, factor in self._terms(item, _DEPTH).items():
                terms[name] += factor
        constant = terms.pop("", 0)
        return None if any(terms.values()) else constant

    def _terms(self, item: Item, depth: int) -> dict[str, int]:
        """An element as a sum: the factors of other elements, and the constant without a name."""
        if not isinstance(item, str):
            return {"": item}
        node = self._ranges.makers.get(item)
        moves = node is not None and _RULES.get(node.op) is _same
        if node is None or not depth or not (moves or node.op in _ARITHMETIC):
            return {item: 1}
        terms = []
        for name in node.inputs[: 1 if moves else 2]:
            operand = self.of(name)
            if operand is None or operand.size != 1:
                return {item: 1}
            terms.append(self._terms(operand.item(), depth - 1))
        if moves:
            return terms[0]
        left, right = terms
        if node.op != "Mul":
            sign = 1 if node.op == "Add" else -1
            return {name: left.get(name, 0) + sign * right.get(name, 0) for name in left | right}
        for factor, other in ((left, right), (right, left)):
            if not any(factor):
                return {name: factor.get("", 0) * each for name, each in other.items()}
        return {item: 1}

    def same(self, left: Item, right: Item) -> bool | None:
        """Whether two elements are equal; ``None`` if it is unknown."""
        if left == right:
            return True
        if not isinstance(left, str) and not isinstance(right, str):
            return False
        name, number = (left, right) if isinstance(left, str) else (right, left)
        known = None if isinstance(number, str) else self.largest(str(name))
        return None if known is None or 0 <= int(number) <= known else False

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
    if any(not -items.size <= each < items.size for each in index):
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


def _sum(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    """Sums and products of constants, and operations that do not change an element."""
    left, right = (lengths.operand(node, place, depth) for place in (0, 1))
    if left is None or right is None:
        return None
    found = np.empty(np.broadcast_shapes(left.shape, right.shape), object)
    neutral = int(node.op == "Mul")
    for place, (one, two) in enumerate(np.broadcast(left, right)):
        if not isinstance(one, str) and not isinstance(two, str):
            found.flat[place] = _ARITHMETIC[node.op](one, two)
        elif two == neutral:
            found.flat[place] = one
        elif one == neutral and node.op != "Sub":
            found.flat[place] = two
        else:
            return None
    return found


def _equal(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    left, right = (lengths.operand(node, place, depth) for place in (0, 1))
    if left is None or right is None:
        return None
    found = [lengths.same(*pair) for pair in np.broadcast(left, right)]
    shape = np.broadcast_shapes(left.shape, right.shape)
    return None if None in found else np.asarray(found, object).reshape(shape)


def _where(lengths: Lengths, node: OnnxNode, depth: int) -> Items | None:
    condition, left, right = (lengths.operand(node, place, depth) for place in range(3))
    if condition is None or left is None or right is None:
        return None
    if any(isinstance(each, str) for each in condition.flat):
        return None
    return np.where(condition.astype(bool), left, right)


_ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "Add": lambda left, right: left + right,
    "Mul": lambda left, right: left * right,
    "Sub": lambda left, right: left - right,
}
_RULES: Mapping[str, Callable[[Lengths, OnnxNode, int], Items | None]] = {
    "Add": _sum,
    "Cast": _same,
    "Concat": _concat,
    "Equal": _equal,
    "Flatten": _same,
    "Gather": _gather,
    "Identity": _same,
    "Mul": _sum,
    "Reshape": _same,
    "Slice": _slice,
    "Squeeze": _same,
    "Sub": _sum,
    "Transpose": _transpose,
    "Unsqueeze": _same,
    "Where": _where,
}
