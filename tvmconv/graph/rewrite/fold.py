"""Arithmetic on constants in numpy.

Relax's FoldConstant compiles a function for each operator, which is slow for the weights of a large
network. As in :mod:`tvmconv.frontend.fold`, the memory of computed constants is limited. Operators
beyond the limit are computed by the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tvmconv.frontend.limits import FOLD_BYTES_PER_BYTE, FREE_FOLD_BYTES
from tvmconv.graph.ir import Array, Graph, Node, Value, constant

_UNARY: dict[str, Callable[[Array], Array]] = {
    "negative": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "log": np.log,
    "square": np.square,
    "tanh": np.tanh,
    "floor": np.floor,
    "ceil": np.ceil,
    "nn.relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}
_BINARY: dict[str, np.ufunc] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
}

_RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten")
# results without memory of their own; a broadcast gets memory when it is emitted
_VIEWS = (*_RESHAPES, "permute_dims")


def fold_constants(graph: Graph) -> None:
    """Replace nodes whose inputs are all constant by constants."""
    memory = _Memory(graph)

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if not node.inputs or not all(value.is_const for value in node.inputs):
            return [node]
        if len(node.outputs) != 1 or not memory.holds(node):
            return [node]
        data = evaluate(node)
        if data is None:
            return [node]
        mapping[node.output] = constant(data, node.layer, node.output.dtype)
        memory.replace(node, mapping[node.output])
        return []

    graph.forward(visit)


class _Memory:
    """The computed constants that are still read: an array counts once, with all its views."""

    def __init__(self, graph: Graph) -> None:
        owners = [_owner(value) for node in graph.nodes for value in node.inputs]
        given = {owner.ctypes.data: owner.nbytes for owner in owners if owner is not None}
        self._left = FREE_FOLD_BYTES + FOLD_BYTES_PER_BYTE * sum(given.values())
        self._readers = graph.use_counts()
        # by the identity of the array that owns the memory
        self._sizes: dict[int, int] = {}
        self._constants: Counter[int] = Counter()

    def holds(self, node: Node) -> bool:
        """Whether the result fits into the memory that is left."""
        return node.op in _VIEWS or 8 * prod(node.output.shape or ()) <= self._left

    def replace(self, node: Node, result: Value) -> None:
        """Count a node's result, and drop its operands that have no other reader."""
        owner = _owner(result)
        if owner is not None and all(owner is not _owner(value) for value in node.inputs):
            self._sizes[id(owner)] = owner.nbytes
            self._left -= owner.nbytes
        self._constants[id(owner)] += 1
        self._readers[result] = self._readers[node.output]
        for value in node.inputs:
            self._readers[value] -= 1
        for value in (result, *dict.fromkeys(node.inputs)):
            if not self._readers[value]:
                self._drop(value)

    def _drop(self, value: Value) -> None:
        key = id(_owner(value))
        if key not in self._sizes:
            return
        # the nodes that read it are in the graph until its rewrite ends
        value.data = None
        self._constants[key] -= 1
        if not self._constants[key]:
            self._left += self._sizes.pop(key)


def _owner(value: Value) -> Array | None:
    """The array that owns the memory of a constant."""
    data = value.data
    while data is not None and isinstance(data.base, np.ndarray):
        data = data.base
    return data


def evaluate(node: Node) -> Array | None:
    """Result of a node on constants, or None for unknown operators."""
    if len(node.outputs) != 1 or node.output.shape is None:
        return None
    shape, arrays = node.output.shape, [value.data for value in node.inputs]
    if any(array is None for array in arrays):
        return None
    result = _evaluate(node.op, node, [array for array in arrays if array is not None], shape)
    if result is None or tuple(result.shape) != shape:
        return None
    return result


def _evaluate(op: str, node: Node, arrays: list[Array], shape: tuple[int, ...]) -> Array | None:
    first = arrays[0]
    if op in _RESHAPES:
        return first.reshape(shape)
    if op == "broadcast_to":
        return np.broadcast_to(first, shape)
    if op == "permute_dims":
        return np.transpose(first, node.attrs.get("axes"))
    if op == "concat":
        axis = node.attrs.get("axis")
        return np.concatenate(arrays, axis=0 if axis is None else axis)
    if op == "isnan":
        return np.isnan(first)
    if op == "where":
        return np.where(first, arrays[1], arrays[2])
    if op == "astype":
        return first.astype(node.output.dtype)
    if op in _BINARY and len(arrays) == 2 and node.output.dtype == "float32":
        return np.asarray(_BINARY[op](first, arrays[1], dtype=np.float64))
    if op in _UNARY and len(arrays) == 1 and node.output.dtype == "float32":
        with np.errstate(all="ignore"):
            return np.asarray(_UNARY[op](first.astype(np.float64)))
    return None


def as_float32(data: Array) -> Array:
    """Contiguous float32 copy (or the array itself where it is one)."""
    # not ascontiguousarray: it would give a number without axes one
    return np.asarray(data, dtype=np.float32, order="C")


def scalar(value: Any) -> float | None:
    """The number of a constant with one element or of a Relax number, else None."""
    if isinstance(value, Value):
        if value.data is None or value.data.size != 1 or value.data.dtype.kind not in "fiu":
            return None
        return float(value.data.reshape(-1)[0])
    if isinstance(value, int | float):
        return float(value)
    inner = getattr(value, "value", value)
    inner = getattr(inner, "value", inner)
    return float(inner) if isinstance(inner, int | float) else None
