"""The axes along which operators compute: images along any other axis are treated separately."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvmconv.frontend.graph import OnnxGraph, OnnxNode

Axes = Callable[[OnnxGraph, OnnxNode, int], set[int]]


def _attribute(default: int) -> Axes:
    return lambda _graph, node, rank: {int(node.attrs.get("axis", default)) % rank}


def _last(count: int) -> Axes:
    return lambda _graph, _node, rank: set(range(rank - count, rank))


def _softmax(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    if node.opset >= 13:
        return _attribute(-1)(graph, node, rank)
    return set(range(int(node.attrs.get("axis", 1)) % rank, rank))


def _from_axis(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    return set(range(int(node.attrs.get("axis", -1)) % rank, rank))


def _operand(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    """The axis is the second input; one that is computed may be any axis."""
    axis = graph.constants.get(node.input(1))
    return set(range(rank)) if axis is None else {int(axis.reshape(-1)[0]) % rank}


def _reduced(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    if given := node.input(1):
        value = graph.constants.get(given)
        axes = None if value is None else [int(axis) for axis in value.reshape(-1)]
    else:
        axes = list(node.ints("axes", ()))
    if axes:
        return {axis % rank for axis in axes}
    does_nothing = axes is not None and node.attrs.get("noop_with_empty_axes", 0)
    return set() if does_nothing else set(range(rank))


def _scaled(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    """A scale for each element along an axis, or for blocks of elements."""
    if len(graph.shape(node.inputs[1])) == 0 or graph.shape(node.inputs[1]) == (1,):
        return set()
    return _attribute(1)(graph, node, rank)


def _padded(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    given = graph.constants.get(node.input(1))
    pads = node.ints("pads", ()) if given is None else tuple(map(int, given.reshape(-1)))
    listed = graph.constants.get(node.input(3))
    axes = range(rank) if listed is None else [int(axis) % rank for axis in listed.reshape(-1)]
    if len(pads) != 2 * len(axes):
        return set(range(rank))
    return {axis for place, axis in enumerate(axes) if any(pads[place :: len(axes)])}


def _sliced(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    if node.opset < 10:
        listed = node.ints("axes", range(len(node.ints("starts", ()))))
        return {axis % rank for axis in listed}
    axes, starts = (graph.constants.get(node.input(place)) for place in (3, 1))
    if axes is not None:
        return {int(axis) % rank for axis in axes.reshape(-1)}
    return set(range(rank if starts is None or node.input(3) else starts.size))


def _normalized(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    return {axis % rank for axis in node.ints("axes", (0, 2, 3))}


def _all(graph: OnnxGraph, node: OnnxNode, rank: int) -> set[int]:
    return set(range(rank))


# axes of the first input; other inputs are equal for all images
ALONG: Mapping[str, Axes] = {
    "ArgMax": _attribute(0),
    "ArgMin": _attribute(0),
    "CumProd": _operand,
    "CumSum": _operand,
    "DequantizeLinear": _scaled,
    "DynamicQuantizeLinear": _all,
    "Hardmax": _softmax,
    "LayerNormalization": _from_axis,
    "LogSoftmax": _softmax,
    "LpNormalization": _attribute(-1),
    "MeanVarianceNormalization": _normalized,
    "NonZero": _all,
    "Pad": _padded,
    "QuantizeLinear": _scaled,
    **{
        f"Reduce{kind}": _reduced
        for kind in (
            *("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"),
        )
    },
    "Slice": _sliced,
    "Softmax": _softmax,
    "Split": _attribute(0),
    "TopK": _attribute(-1),
    "Trilu": _last(2),
    "Unique": _all,
}
