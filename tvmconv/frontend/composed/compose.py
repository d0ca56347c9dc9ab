"""Reads composed nodes: each part is read as soon as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import onnx

from tvmconv.frontend.attributes import check_attributes
from tvmconv.frontend.composed.parts import COMPOSITIONS, Parts
from tvmconv.frontend.fold import Folder
from tvmconv.frontend.graph import Array, OnnxGraph, OnnxNode
from tvmconv.frontend.nested.subgraphs import Fresh
from tvmconv.frontend.tensors import proto_of
from tvmconv.frontend.types import check_input_types


class Composer:
    """Writes one composed node into a graph, and reads its parts.

    ``read`` reads a part, decoded and in ONNX's form; it may be a composed node itself. ``proto``
    is the form of the node.
    """

    def __init__(
        self,
        graph: OnnxGraph,
        folder: Folder,
        read: Callable[[OnnxNode, onnx.NodeProto], None],
        node: OnnxNode,
        proto: onnx.NodeProto,
    ) -> None:
        self.graph = graph
        self._folder = folder
        self._read = read
        self._node = node
        self._proto = proto
        # constants among these live until all parts are written
        self._held: list[str] = []

    @staticmethod
    def knows(domain: str, op: str) -> bool:
        """Whether an operator of an operator set is composed."""
        return (domain, op) in COMPOSITIONS

    def read_part(self, part: OnnxNode, domain: str) -> None:
        """Check, fold or infer one part."""
        form = proto_of(part, self._node, self._proto)
        form.domain = domain
        self._folder.expect([form])
        self._hold(*part.outputs)
        self._read(part, form)

    def store(self, name: str, value: Array) -> None:
        """Add a constant."""
        self._hold(name)
        self._folder.store(self._node, name, value)

    def check_memory(self, size: int) -> None:
        """Refuse constants of too many bytes."""
        self._folder.check_memory(self._node, size)

    def _hold(self, *names: str) -> None:
        self._folder.hold(names)
        self._held.extend(names)

    def write(self, domain: str, fresh: Fresh) -> None:
        """Read the parts of the node; the last ones get the names of its outputs.

        ``fresh`` makes names of values.
        """
        node = self._node
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
            self._name(results[index], output, start)
            if index + 1 < len(results):
                # one value may be several outputs
                renamed = {results[index]: output}
                results[index + 1 :] = [renamed.get(name, name) for name in results[index + 1 :]]
        # constants that no part reads
        self._folder.drop(self._held)
        self._folder.release(node)

    def _name(self, result: str, output: str, start: int) -> None:
        """Give a result the name of an output of the composed node."""
        graph, node = self.graph, self._node
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
