"""Reads composed nodes: each part is read as soon as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvmconv.frontend.attributes import check_attributes
from tvmconv.frontend.composed.parts import COMPOSITIONS, Parts
from tvmconv.frontend.graph import OnnxGraph, OnnxNode
from tvmconv.frontend.subgraphs import Fresh
from tvmconv.frontend.types import check_input_types


class Composer:
    """Writes one composed node into a graph.

    ``read`` reads a part of an operator set, which may be a composed node itself.
    ``check_memory`` refuses constants of too many bytes.
    """

    def __init__(
        self,
        graph: OnnxGraph,
        read: Callable[[OnnxNode, str], None],
        check_memory: Callable[[int], None],
    ) -> None:
        self.graph = graph
        self.read_part = read
        self.check_memory = check_memory

    @staticmethod
    def knows(domain: str, op: str) -> bool:
        """Whether an operator of an operator set is composed."""
        return (domain, op) in COMPOSITIONS

    def write(self, node: OnnxNode, domain: str, fresh: Fresh) -> None:
        """Read the parts of a node; the last ones get the names of its outputs."""
        composition = COMPOSITIONS[domain, node.op]
        if not domain:
            check_input_types(self.graph, node)
        composition.check(self.graph, node)
        check_attributes(node, len(self.graph.shape(node.inputs[0])))
        start = len(self.graph.nodes)
        parts = Parts(self, node, fresh)
        found = composition.write(parts)
        results = [found] if isinstance(found, str) else found
        for index, output in enumerate(node.outputs):
            if not output:
                continue
            if index >= len(results) or not results[index]:
                raise node.error(
                    f"its output {index} ({output!r}) is not supported",
                    "remove what reads it, or cut the model before this node",
                )
            self._name(node, results[index], output, start)
            if index + 1 < len(results):
                # one value may be several outputs
                renamed = {results[index]: output}
                results[index + 1 :] = [renamed.get(name, name) for name in results[index + 1 :]]

    def _name(self, node: OnnxNode, result: str, output: str, start: int) -> None:
        """Give a result the name of an output of the composed node."""
        graph = self.graph
        made = any(result in part.outputs for part in graph.nodes[start:])
        if not made or result in node.outputs:
            identity = OnnxNode(node.name, "Identity", (result,), (output,), {}, node.opset)
            self.read_part(identity, "")
            return
        for index in range(start, len(graph.nodes)):
            part = graph.nodes[index]
            inputs = tuple(output if name == result else name for name in part.inputs)
            outputs = tuple(output if name == result else name for name in part.outputs)
            graph.nodes[index] = replace(part, inputs=inputs, outputs=outputs)
        graph.types[output] = replace(graph.types.pop(result), name=output)
