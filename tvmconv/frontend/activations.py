"""The memory of a graph's activations."""

from __future__ import annotations

from tvmconv.frontend.graph import OnnxGraph
from tvmconv.frontend.limits import MAX_ACTIVATION_BYTES


def check_activations(graph: OnnxGraph) -> None:
    """Refuse a graph that needs too much memory at any time."""
    last = {name: index for index, node in enumerate(graph.nodes) for name in node.inputs}
    last.update((info.name, len(graph.nodes)) for info in graph.outputs)
    sizes = {info.name: info.bytes for info in graph.inputs}
    alive = sum(sizes.values())
    for index, node in enumerate(graph.nodes):
        made = {name: graph.types[name].bytes for name in node.outputs if name in graph.types}
        alive += sum(made.values())
        if alive > MAX_ACTIVATION_BYTES:
            raise node.error(
                f"the tensors alive while it runs take {alive} bytes; at most "
                f"{MAX_ACTIVATION_BYTES} are allowed",
                "check the model's sizes, or use smaller inputs",
            )
        sizes.update(made)
        for name in {*node.inputs, *made}:
            if last.get(name, index) == index:
                alive -= sizes.pop(name, 0)
