"""Moves the integers of dequantized constants, in place of their FP32 values.

TVM's importer reshapes a dequantized bias and transposes a dequantized weight. INT8 layers read the
integers of both.
"""

from __future__ import annotations

from dataclasses import replace

from tvmconv.frontend.integers import QuantizedConstant
from tvmconv.graph.ir import Graph, Node, Value
from tvmconv.graph.quantized.scales import dequantize_node, known_integers

_RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten")


def move_constants(graph: Graph) -> None:
    """Replace each move of a dequantized constant by a dequantized constant, in place."""
    graph.forward(_moved)


def _moved(node: Node, mapping: dict[Value, Value]) -> list[Node]:
    if node.op not in (*_RESHAPES, "permute_dims") or node.output.shape is None:
        return [node]
    known = known_integers(node.args[0])
    moved = None if known is None else _of(node, known)
    if moved is None:
        return [node]
    made = dequantize_node(moved)
    mapping[node.output] = made.output
    return [made]


def _of(node: Node, known: QuantizedConstant) -> QuantizedConstant | None:
    """The result of a move; None if its scales no longer follow one axis."""
    if node.op == "permute_dims":
        order = node.attrs.get("axes")
        axes = [int(axis) for axis in order] if order else [*reversed(range(known.data.ndim))]
        data = known.data.transpose(axes)
        return replace(known, data=data, axis=axes.index(known.axis))
    dims = node.output.dims
    data = known.data.reshape(dims)
    if known.scale.ndim == known.zero_point.ndim == 0:
        return replace(known, data=data, axis=0)
    longest = max(dims, default=1)
    if known.data.ndim != 1 or known.data.size != longest:
        return None
    return replace(known, data=data, axis=dims.index(longest))
