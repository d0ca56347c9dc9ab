"""Lets running sums start at the end of an axis, instead of reversing their operand and result."""

from __future__ import annotations

from tvmconv.graph.ir import Graph, Node, Value, made_by

# attribute of a ``cumsum`` node: whether the sums start at the end
REVERSE = "reverse"


def reverse_sums(graph: Graph) -> None:
    """Replace a reversal, a running sum and a second reversal by one node, in place."""
    graph.forward(_joined)


def _joined(node: Node, _: dict[Value, Value]) -> list[Node]:
    if node.op != "flip" or (total := made_by(node.args[0], "cumsum")) is None:
        return [node]
    first = made_by(total.args[0], "flip")
    if first is None or REVERSE in total.attrs or node.output.shape is None:
        return [node]
    rank = len(node.output.shape)
    if len({made.attrs["axis"] % rank for made in (first, total, node)}) == 1:
        node.op, node.args, node.call = "cumsum", [first.args[0]], None
        node.attrs = {**total.attrs, REVERSE: True}
    return [node]
