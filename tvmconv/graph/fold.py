"""Arithmetic on constants, done in numpy while the graph is rewritten.

Relax's own FoldConstant compiles a function for each operator it folds; for the weights of a
large network that takes longer than building it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvmconv.graph.ir import Array, Graph, Node, Value, constant

# bytes that folding may create beyond what its inputs held: keeps broadcasts of one number lazy
_MAX_GROWTH = 1 << 28

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
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
}


def fold_constants(graph: Graph) -> None:
    """Replace nodes whose inputs are all constant by constants."""

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if not node.inputs or not all(value.is_const for value in node.inputs):
            return [node]
        data = evaluate(node)
        if data is None:
            return [node]
        mapping[node.output] = constant(data, node.layer, node.output.dtype)
        return []

    graph.forward(visit)


def evaluate(node: Node) -> Array | None:
    """Result of a node on constants, or None where it is not computed here."""
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
    if op in ("reshape", "squeeze", "expand_dims", "flatten"):
        return first.reshape(shape)
    if op == "broadcast_to":
        return np.broadcast_to(first, shape)
    if op == "permute_dims":
        return np.transpose(first, node.attrs.get("axes"))
    if op == "concat" and sum(array.nbytes for array in arrays) < _MAX_GROWTH:
        axis = node.attrs.get("axis")
        return np.concatenate(arrays, axis=0 if axis is None else axis)
    if op == "isnan":
        return np.isnan(first)
    if op == "where" and np.prod(shape) * first.itemsize < _MAX_GROWTH:
        return np.where(first, arrays[1], arrays[2])
    if op == "astype":
        return first.astype(node.output.dtype)
    if op in _BINARY and len(arrays) == 2 and node.output.dtype == "float32":
        if np.prod(shape) * 8 > _MAX_GROWTH:
            return None
        return _BINARY[op](first.astype(np.float64), arrays[1].astype(np.float64))
    if op in _UNARY and len(arrays) == 1 and node.output.dtype == "float32":
        if np.prod(shape) * 8 > _MAX_GROWTH:
            return None
        with np.errstate(all="ignore"):
            return np.asarray(_UNARY[op](first.astype(np.float64)))
    return None


def as_float32(data: Array) -> Array:
    """Contiguous float32 copy (or the array itself where it is one)."""
    # not ascontiguousarray: it would give a number without axes one
    return np.asarray(data, dtype=np.float32, order="C")


def scalar(value: Any) -> float | None:
    """The number behind a constant of one element or a Relax number, else None."""
    if isinstance(value, Value):
        if value.data is None or value.data.size != 1 or value.data.dtype.kind not in "fiu":
            return None
        return float(value.data.reshape(-1)[0])
    if isinstance(value, int | float):
        return float(value)
    inner = getattr(value, "value", value)
    inner = getattr(inner, "value", inner)
    return float(inner) if isinstance(inner, int | float) else None
