"""Sub-graphs of nodes: the values that they read from outside, and copies with other names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

Fresh = Callable[[str], str]


def subgraphs(node: onnx.NodeProto) -> list[onnx.GraphProto]:
    """The graphs in a node's attributes."""
    return [
        graph
        for attribute in node.attribute
        for graph in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)
    ]


def subgraph(node: onnx.NodeProto, name: str) -> onnx.GraphProto | None:
    """The graph in one attribute of a node."""
    found = (a.g for a in node.attribute if a.name == name and a.HasField("g"))
    return next(found, None)


def reads(node: onnx.NodeProto) -> Iterator[str]:
    """Names of the values that a node reads, its sub-graphs included; a name may come twice."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        yield from captured(graph)


def captured(graph: onnx.GraphProto) -> list[str]:
    """Names of the outer values that a sub-graph reads, each once, in order."""
    own = {value.name for value in (*graph.input, *graph.initializer)}
    own.update(name for node in graph.node for name in node.output)
    names = [name for node in graph.node for name in reads(node)]
    names += [output.name for output in graph.output]
    return [name for name in dict.fromkeys(names) if name not in own]


def all_names(graph: onnx.GraphProto) -> set[str]:
    """The names of all values in a graph and its sub-graphs."""
    names = {value.name for value in (*graph.input, *graph.initializer)}
    for node in graph.node:
        names.update(node.input, node.output)
        for inner in subgraphs(node):
            names |= all_names(inner)
    return names


def renamed(graph: onnx.GraphProto, given: Mapping[str, str], fresh: Fresh) -> Mapping[str, str]:
    """Outer names for the values that a sub-graph makes; ``given`` names its inputs."""
    names = dict(given)
    for value in graph.initializer:
        names.setdefault(value.name, fresh(value.name))
    for node in graph.node:
        names.update((name, fresh(name)) for name in node.output if name)
    return names


def copied(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """A node with other names of values, in its sub-graphs as well."""
    import onnx

    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for graph in subgraphs(copy):
        _rename_captured(graph, names)
    return copy


def _rename_captured(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Change the names of outer values that a sub-graph reads, in place."""
    used = {name: names[name] for name in captured(graph) if name in names}
    if not used:
        return
    for node in graph.node:
        node.input[:] = [used.get(name, name) for name in node.input]
        for inner in subgraphs(node):
            _rename_captured(inner, used)
    for output in graph.output:
        output.name = used.get(output.name, output.name)
