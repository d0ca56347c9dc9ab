"""Recognizes the minimum and the maximum of one tensor, as in DynamicQuantizeLinear.

Two reductions would read the tensor twice.
"""

from __future__ import annotations

from tvmconv.graph.ir import Graph, Node, Value, make_node

# one argument, and two results of shape (): the minimum and the maximum
EXTREMA = "tvmconv.extrema"
_OTHER = {"min": "max", "max": "min"}


def fuse_extrema(graph: Graph) -> None:
    """Replace pairs of such reductions of float32 by :data:`EXTREMA` nodes, in place."""
    users = graph.users()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if not _is_extreme(node) or node.output in mapping:
            return [node]
        found = (
            other
            for other in users.get(node.args[0], ())
            if other.op == _OTHER[node.op] and _is_extreme(other)
        )
        if (other := next(found, None)) is None:
            return [node]
        pair = make_node(EXTREMA, node.args, (), layer=node.layer)
        pair.outputs.append(Value((), "float32", "", None, pair))
        sides = (node, other) if node.op == "min" else (other, node)
        mapping.update(zip((side.output for side in sides), pair.outputs, strict=True))
        return [pair]

    graph.forward(visit)
    graph.remove_dead()


def _is_extreme(node: Node) -> bool:
    """Whether a node is the minimum or maximum of all elements."""
    if node.op not in _OTHER or node.output.shape != () or node.output.dtype != "float32":
        return False
    source = node.args[0]
    return not source.is_const and bool(source.shape) and all(source.dims)
