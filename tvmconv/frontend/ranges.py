"""Bounds of integers that a graph computes, for checks of indices that are not needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tvmconv.frontend.graph import OnnxGraph, OnnxNode

# minimum and maximum; None if unknown
Range = tuple[int, int] | None

# operators whose last result is the size of the others
SIZED = ("Compress", "NonMaxSuppression", "NonZero", "Unique")
# producers that are followed
_DEPTH = 16
# operators whose result holds elements of the first input only
_MOVES = frozenset({
    "Compress", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape",
    "ReverseSequence", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip


class IndexRanges:
    """Finds the range of a value from the operators that compute it.

    ``makers`` are the nodes by the names of their results.
    """

    def __init__(self, graph: OnnxGraph) -> None:
        self._graph = graph
        self.makers = {name: node for node in graph.nodes for name in node.outputs if name}

    def of(self, name: str, depth: int = _DEPTH) -> Range:
        """Bounds of every element of a value of integers."""
        constant = self._graph.constants.get(name)
        if constant is not None:
            known = constant.size and constant.dtype.kind in "iub"
            return (int(constant.min()), int(constant.max())) if known else None
        node = self.makers.get(name)
        if node is None or not depth:
            return None
        found = self._made(node, name, depth)
        return found if found is not None and self._fits(found, name) else None

    def highest(self, name: str, depth: int = _DEPTH) -> int | None:
        """The largest value of an integer, also where the smallest one is not known."""
        found, node = self.of(name), self.makers.get(name)
        if found is not None or node is None or not depth:
            return found and found[1]
        if node.op == "Min":
            bounds = [self.highest(each, depth - 1) for each in node.inputs]
            return min((bound for bound in bounds if bound is not None), default=None)
        if node.op == "Clip" and node.input(2):
            return self.highest(node.inputs[2], depth - 1)
        if node.op in _MOVES or node.op == "Cast":
            return self.highest(node.inputs[0], depth - 1)
        return None

    def _fits(self, found: tuple[int, int], name: str) -> bool:
        """Whether results of this range cannot wrap around in the value's type."""
        dtype = np.dtype(self._graph.types[name].dtype)
        if dtype.kind not in "iu":
            return dtype.kind == "f"
        limits = np.iinfo(dtype)
        return bool(limits.min <= found[0] and found[1] <= limits.max)

    def _made(self, node: OnnxNode, name: str, depth: int) -> Range:
        shape = self._graph.shape(node.inputs[0])
        if node.op in ("ArgMax", "ArgMin", "TopK"):
            if node.op == "TopK" and name != node.outputs[1]:
                return self.of(node.inputs[0], depth - 1)
            default = -1 if node.op == "TopK" else 0
            return (0, shape[int(node.attrs.get("axis", default))] - 1) if shape else None
        if node.op in SIZED and name == node.outputs[-1]:
            return 0, max(self._graph.shape(node.outputs[0]))
        if node.op in ("NonMaxSuppression", "NonZero"):
            # rows of batch, class and box; places along each axis
            inputs = node.inputs[:2]
            sizes = [size for each in inputs if each for size in self._graph.shape(each)]
            return 0, max(sizes) - 1
        if node.op in _MOVES:
            return self.of(node.inputs[0], depth - 1)
        if node.op == "Cast" and not self._is_integer(node.inputs[0]):
            return (0, 1) if self._graph.types[node.inputs[0]].dtype == "bool" else None
        if node.op == "Mod" and not node.attrs.get("fmod", 0):
            divisor = self.of(node.inputs[1], depth - 1)
            return (0, divisor[1] - 1) if divisor and divisor[0] > 0 else None
        if node.op == "Clip":
            return self._clip(node, depth)
        rule = _RULES.get(node.op)
        if rule is None:
            return None
        # the first operand of Where is the condition
        values = node.inputs[1:] if node.op == "Where" else node.inputs
        operands = [self.of(each, depth - 1) for each in values if each]
        known = [each for each in operands if each is not None]
        return rule(known) if len(known) == len(operands) else None

    def _is_integer(self, name: str) -> bool:
        return np.dtype(self._graph.types[name].dtype).kind in "iu"

    def _clip(self, node: OnnxNode, depth: int) -> Range:
        bounds = [self.of(node.input(place), depth - 1) for place in (1, 2)]
        low, high = bounds
        if low is None or high is None or low[1] > high[0]:
            return None
        return low[0], high[1]


def _corners(known: list[tuple[int, int]], combine: Callable[[int, int], int]) -> Range:
    low, high = known
    values = [combine(a, b) for a in low for b in high]
    return min(values), max(values)


def _quotient(known: list[tuple[int, int]]) -> Range:
    (low, high), (first, last) = known
    if low < 0 or first <= 0:
        return None
    return low // last, high // first


def _joined(known: list[tuple[int, int]]) -> Range:
    return min(low for low, _ in known), max(high for _, high in known)


_RULES: Mapping[str, Callable[[list[tuple[int, int]]], Range]] = {
    "Add": lambda known: _corners(known, lambda a, b: a + b),
    "Sub": lambda known: _corners(known, lambda a, b: a - b),
    "Mul": lambda known: _corners(known, lambda a, b: a * b),
    "Div": _quotient,
    "Max": lambda known: (max(low for low, _ in known), max(high for _, high in known)),
    "Min": lambda known: (min(low for low, _ in known), min(high for _, high in known)),
    "Cast": _joined,
    "Concat": _joined,
    "Where": _joined,
}
