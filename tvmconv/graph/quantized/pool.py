"""Averages of 8-bit integers, rounded to 8 bits again, as one operator.

They are averages of the numbers that the integers stand for, in float32, as the model has them;
as one operator they read and write one byte an element.
"""

from __future__ import annotations

from tvmconv.graph.blockable import can_block
from tvmconv.graph.ir import Graph, Node
from tvmconv.graph.match import Readers, replace_layers
from tvmconv.graph.quantized.scales import AVERAGE, linear_of

_AVERAGES = ("mean", "nn.avg_pool2d")


def fuse_averages(graph: Graph) -> None:
    """``Q(average(D(x)))`` becomes one node, in place.

    It keeps the average's attributes; ``kind`` is its operator, ``source`` and ``result`` are the
    :class:`~tvmconv.graph.quantized.scales.Linear` s of both ends.
    """

    def match(node: Node, readers: Readers) -> tuple[Node, list[Node]] | None:
        if node.op not in _AVERAGES or not can_block(node):
            return None
        before, after = node.args[0].producer, readers.only(node.output)
        source, result = linear_of(before, "dequantize"), linear_of(after, "quantize")
        if source is None or result is None or before is None or after is None:
            return None
        attrs = {**node.attrs, "kind": node.op, "source": source, "result": result}
        fused = Node(AVERAGE, [before.args[0]], after.outputs, attrs, None, node.layer)
        fused.output.producer = fused
        return fused, [after]

    replace_layers(graph, match)
