"""Averages of INT8 tensors, rounded to INT8 again, as one operator.

The average is computed in FP32, as in the model, but only one byte per element is read and
written.
"""

from __future__ import annotations

from tvmconv.graph.blockable import can_block
from tvmconv.graph.ir import Graph, Node, fused_node
from tvmconv.graph.match import Readers, replace_layers
from tvmconv.graph.quantized.scales import AVERAGE, linear_of

_AVERAGES = ("mean", "nn.avg_pool2d")


def fuse_averages(graph: Graph) -> None:
    """``Q(average(D(x)))`` becomes one node, in place.

    The node keeps the average's attributes. ``kind`` is the operator. ``source`` and ``result`` are
    the parameters of ``D`` and ``Q``.
    """

    def match(node: Node, readers: Readers) -> tuple[Node, list[Node]] | None:
        if node.op not in _AVERAGES or not can_block(node):
            return None
        before, after = node.args[0].producer, readers.only(node.output)
        source, result = linear_of(before, "dequantize"), linear_of(after, "quantize")
        if source is None or result is None or before is None or after is None:
            return None
        attrs = {**node.attrs, "kind": node.op, "source": source, "result": result}
        return fused_node(AVERAGE, [before.args[0]], after, node.layer, attrs), [after]

    replace_layers(graph, match)
