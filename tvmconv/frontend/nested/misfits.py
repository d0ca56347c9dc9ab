"""Branches of an If whose shapes do not fit the inputs: they end a call with an error.

Exporters write one network for several sizes of the input, and choose by an If at run time. With
the shapes of one build, the nodes of the other branch contradict each other. Such a branch cannot
run. A graph that refuses the data replaces it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tvmconv.core.errors import ShapeError
from tvmconv.core.tensor import TensorInfo
from tvmconv.frontend.graph import OnnxGraph, OnnxNode

# name of the operator that only refuses
REFUSE = "Refuse"


def fitting(
    names: Iterable[str], read: Callable[[str], OnnxGraph]
) -> tuple[dict[str, OnnxGraph], dict[str, ShapeError]]:
    """The branches that can be read, and the errors of the others.

    Raises the first error if no branch fits.
    """
    graphs: dict[str, OnnxGraph] = {}
    misfits: dict[str, ShapeError] = {}
    for name in names:
        try:
            graphs[name] = read(name)
        except ShapeError as error:
            misfits[name] = error
    if not graphs:
        raise next(iter(misfits.values()))
    return graphs, misfits


def add_misfits(
    owner: str,
    graphs: dict[str, OnnxGraph],
    misfits: Mapping[str, ShapeError],
    fresh: Callable[[str], str],
) -> None:
    """Add a graph that refuses the data for each branch that does not fit."""
    for branch, error in misfits.items():
        (other,) = graphs.values()
        graph = OnnxGraph(branch, other.opset, other.ir_version, other.inputs, ())
        text = (
            f"node {owner!r} (If): the condition selects {branch}, which does not fit the shapes "
            f"of this build ({error.problem}). Give other data, or build for other shapes."
        )
        for result in other.outputs:
            name = fresh(result.name)
            graph.types[name] = TensorInfo(name, result.shape, result.dtype)
            graph.nodes.append(OnnxNode(name, REFUSE, (), (name,), {"text": text}, other.opset))
        graph.types.update((info.name, info) for info in other.inputs)
        graph.outputs = tuple(graph.types[node.outputs[0]] for node in graph.nodes)
        graphs[branch] = graph
