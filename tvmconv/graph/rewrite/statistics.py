"""Recognizes standardization, (x - mean) / sqrt(variance + epsilon), in several operators.

The separate operators need five passes over the data, and their square root is not defined in
surplus lanes of blocks. One node reads the data twice for the statistics and once for the result.
The scale, shift and activation after it are merged into that pass.

:data:`STANDARDIZE` has one argument and the attributes

``kind``
    ``"rows"``: the operand in row-major order is cut into ``rows`` equal pieces, each with
    statistics of its own: InstanceNormalization (a piece for each channel), GroupNormalization,
    LayerNormalization. ``"channels"``: each pixel of (N, C, H, W), over its channels. ``"batch"``:
    each channel of (N, C, ...) over the whole batch, as BatchNormalization in training.
``epsilon``
    Added to the variance.

A node of kind ``"batch"`` may have two more results, the mean and the variance, for running
statistics. They have the operand's shape, with 1 for all axes but the channels.
"""

from __future__ import annotations

from math import prod

from tvmconv.graph.ir import Arg, Graph, Node, Value, made_by
from tvmconv.graph.rewrite.fold import scalar

STANDARDIZE = "tvmconv.standardise"


def fuse_statistics(graph: Graph) -> None:
    """Replace the last node of each pattern; other nodes without readers become dead."""
    uses = graph.use_counts()

    def visit(node: Node, mapping: dict[Value, Value]) -> list[Node]:
        if node.op == "divide" and node.output.shape is not None:
            statistics = _standardize(node)
            # in the pattern, the mean and the variance have one reader each
            if node.attrs.get("kind") == "batch" and any(uses[value] > 1 for value in statistics):
                for value in statistics:
                    node.outputs.append(Value(value.shape, value.dtype, value.name, None, node))
                    mapping[value] = node.outputs[-1]
        return [node]

    graph.forward(visit)
    graph.forward(_without_views)


def _standardize(node: Node) -> tuple[Value, ...]:
    """Make the node a standardization; returns mean and variance, or nothing for other nodes."""
    centered, deviation = node.args
    root = made_by(deviation, "sqrt")
    added = made_by(root.args[0], "add") if root else None
    subtracted = made_by(centered, "subtract")
    if not added or not subtracted or node.output.dtype != "float32":
        return ()
    source, mean = subtracted.args[0], made_by(subtracted.args[1], "mean")
    if mean is None or mean.args[0] is not source or source.shape is None or source.is_const:
        return ()
    for spread, number in (added.args, added.args[::-1]):
        variance, epsilon = made_by(spread, "mean"), scalar(number)
        if variance is None or epsilon is None or _squared(variance.args[0]) is not centered:
            continue
        axes = _axes(mean)
        if axes is None or axes != _axes(variance):
            continue
        attrs = _attributes(source.dims, axes)
        if attrs is None:
            return ()
        node.op, node.args, node.call = STANDARDIZE, [source], None
        node.attrs = {**attrs, "epsilon": epsilon}
        return mean.output, variance.output
    return ()


def _squared(value: Arg) -> Value | None:
    """The base of a square; None for other values."""
    made = value.producer if isinstance(value, Value) else None
    if made is None:
        return None
    twice = made.op == "multiply" and made.args[0] is made.args[1]
    if twice or made.op == "square" or (made.op == "power" and scalar(made.args[1]) == 2):
        return made.args[0]
    return None


def _axes(mean: Node) -> tuple[int, ...] | None:
    """The axes of a mean that keeps them with size 1."""
    axes, rank = mean.attrs.get("axis"), len(mean.args[0].dims)
    if axes is None or not mean.attrs.get("keepdims"):
        return None
    return tuple(sorted(int(axis) % rank for axis in axes))


def _attributes(shape: tuple[int, ...], axes: tuple[int, ...]) -> dict[str, object] | None:
    first = len(shape) - len(axes)
    if 0 in shape:
        return None
    if axes == tuple(range(first, len(shape))):
        return {"kind": "rows", "rows": prod(shape[:first])}
    if axes == (0, *range(2, len(shape))):
        return {"kind": "batch"}
    return {"kind": "channels"} if len(shape) == 4 and axes == (1,) else None


def _without_views(node: Node, _mapping: dict[Value, Value]) -> list[Node]:
    """Remove the reshapes by which exporters form groups of channels."""
    inner = made_by(node.args[0], STANDARDIZE) if node.op == "reshape" else None
    before = made_by(inner.args[0], "reshape") if inner else None
    if inner and before and inner.attrs["kind"] == "rows":
        source = before.args[0]
        if source.shape == node.output.shape:
            node.op, node.args, node.attrs = STANDARDIZE, [source], dict(inner.attrs)
            node.layer, node.call = inner.layer, None
    return [node]
