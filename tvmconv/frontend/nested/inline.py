"""Sub-graphs read in place of their node, and the state that all graphs of a model share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from onnx import helper

from tvmconv.core.errors import ModelError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.external import ExternalData
from tvmconv.frontend.graph import Array, Extent, OnnxGraph
from tvmconv.frontend.limits import MAX_NODES
from tvmconv.frontend.nested.subgraphs import Fresh, captured, copied, renamed, subgraph
from tvmconv.frontend.structure import describe, in_execution_order
from tvmconv.frontend.tensors import read_initializers

if TYPE_CHECKING:
    import onnx


CORRECT = "correct the model and export it again"


class Shared:
    """State of all graphs of a model: names, the number of nodes, external data.

    ``fresh`` makes names that no value of the model has. ``names`` are the names of nodes.
    """

    def __init__(self, fresh: Fresh, names: set[str], external: ExternalData | None) -> None:
        self.fresh = fresh
        self.names = names
        self.external = external
        self._count = 0

    def own_name(self, proto: onnx.NodeProto) -> str:
        """The node's name, or its first output where it has none or shares it."""
        name = str(proto.name)
        if not name or name in self.names:
            name = str(next(filter(None, proto.output), name) or proto.op_type)
        if name in self.names:
            name = self.fresh(name)
        self.names.add(name)
        return name

    def count(self, proto: onnx.NodeProto) -> None:
        """Refuse a model that becomes too large when its sub-graphs are read in place."""
        self._count += 1
        if self._count > MAX_NODES:
            raise error(
                proto,
                f"the model has more than {MAX_NODES} nodes with its sub-graphs in place",
                "split the model",
            )


@dataclass(frozen=True)
class OuterValues:
    """The values that sub-graphs read from outside: tensors of the run, and constants.

    ``extents`` are of tensors whose size depends on the data. Their sizes are inputs as well.
    """

    inputs: tuple[TensorInfo, ...] = ()
    constants: Mapping[str, Array] = field(default_factory=dict)
    extents: Mapping[str, Extent] = field(default_factory=dict)


class Walk(Protocol):
    """The walk of a graph, as :mod:`tvmconv.frontend.infer` does it."""

    graph: OnnxGraph
    shared: Shared

    def read(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Read nodes in execution order."""

    def expect(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Count the reads of nodes that are read in place of another one."""

    def keep(self, names: Iterable[str]) -> None:
        """Keep constants of these names, which no node reads."""

    def nested(
        self,
        body: onnx.GraphProto,
        inputs: tuple[TensorInfo, ...],
        constants: Mapping[str, Array],
        outer: OuterValues,
    ) -> OnnxGraph:
        """The graph of a sub-graph that runs as a program of its own.

        Its own inputs precede the outer values.
        """
        ...


def error(proto: onnx.NodeProto, problem: str, remedy: str) -> ModelError:
    """An error about a node that is not decoded yet."""
    return ModelError(f"{describe(proto)}: {problem}. {remedy[0].upper()}{remedy[1:]}.")


def body_of(proto: onnx.NodeProto, name: str) -> onnx.GraphProto:
    """The sub-graph that an operator must have."""
    graph = subgraph(proto, name)
    if graph is None:
        raise error(proto, f"it has no sub-graph {name!r}", CORRECT)
    return graph


def check_condition(walk: Walk, proto: onnx.NodeProto, name: str) -> None:
    """Refuse a condition that is not one bool."""
    info = walk.graph.types.get(name)
    if info is None or info.dtype != "bool" or info.shape not in ((), (1,)):
        raise error(proto, f"its condition is {info or 'missing'}. Expected one bool", CORRECT)


def read_also(walk: Walk, nodes: Sequence[onnx.NodeProto]) -> None:
    """Read nodes that are not in the model's file."""
    walk.expect(nodes)
    walk.read(nodes)


def read_in_place(
    walk: Walk, body: onnx.GraphProto, given: Mapping[str, str], outputs: Sequence[str]
) -> None:
    """Read a sub-graph's nodes as nodes of the outer graph.

    ``given`` has outer values by the names of inputs. ``outputs`` are outer names of the results,
    ``""`` for a result that nobody reads.
    """
    names = renamed(body, given, walk.shared.fresh)
    for name, value in read_initializers(body, walk.shared.external).items():
        if name not in given:
            walk.graph.add_constant(names[name], value)
    nodes = [copied(node, names) for node in in_execution_order(body)]
    nodes += [
        helper.make_node("Identity", [names.get(result.name, result.name)], [target])
        for result, target in zip(body.output, outputs, strict=True)
        if target
    ]
    read_also(walk, nodes)


def read_trip(walk: Walk, body: onnx.GraphProto, given: Sequence[str]) -> list[str]:
    """Read the body of a loop in place once; gives outer names of its results, which are kept.

    ``given`` are outer values of its inputs.
    """
    outputs = [walk.shared.fresh(output.name) for output in body.output]
    walk.keep(outputs)
    names = [info.name for info in body.input]
    read_in_place(walk, body, dict(zip(names, given, strict=True)), outputs)
    return outputs


def outer_values(
    walk: Walk, proto: onnx.NodeProto, bodies: Iterable[onnx.GraphProto]
) -> OuterValues:
    """The values that sub-graphs read from outside."""
    graph = walk.graph
    names = dict.fromkeys(name for body in bodies for name in captured(body))
    if unknown := [name for name in names if name not in graph.types]:
        raise error(
            proto,
            f"its sub-graph reads {unknown[0]!r}, which has no shape that can be inferred",
            "remove the operator that makes it, because shapes must be static",
        )
    extents = {name: graph.extents[name] for name in names if name in graph.extents}
    names |= dict.fromkeys(extent.value for extent in extents.values())
    constants = {name: graph.constants[name] for name in names if name in graph.constants}
    inputs = tuple(graph.types[name] for name in names if name not in constants)
    return OuterValues(inputs, constants, extents)


def used_inputs(graph: OnnxGraph) -> set[str]:
    """The names of a nested graph's inputs that it reads."""
    read = {name for node in graph.nodes for name in node.inputs}
    return read | {info.name for info in graph.outputs}
