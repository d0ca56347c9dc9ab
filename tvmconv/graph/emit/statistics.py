"""Standardization: two small tensors of statistics, and steps that merge with later operators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from math import prod
from operator import mul

from tvmconv.graph.emit.emitter import CallRecord, Emitter
from tvmconv.graph.emit.plain_moves import row_transposition
from tvmconv.graph.ir import Node
from tvmconv.machines.record import processor
from tvmconv.operators.extrema import extrema
from tvmconv.operators.moments import batch_moments, channel_moments, group_moments, row_moments
from tvmconv.operators.moments_short_rows import short_row_moments
from tvmconv.operators.row_groups import are_short
from tvmconv.tvm_api import relax
from tvmconv.tvm_api.types import RelaxExpr, Tensor

_Moments = Callable[[Tensor], list[Tensor]]


def standardize_blocked(emitter: Emitter, node: Node) -> None:
    """Standardize blocked images: channels of each pixel, groups of channels, or the batch."""
    attrs, (batch, channels, *_) = node.attrs, node.outputs[0].dims
    epsilon, data = attrs["epsilon"], emitter.as_blocked(node.args[0])

    def expression(x: Tensor) -> list[Tensor]:
        if attrs["kind"] == "channels":
            return channel_moments(x, channels, epsilon)
        if attrs["kind"] == "batch":
            return _used(node, batch_moments(x, epsilon))
        return group_moments(x, channels, attrs["rows"] // batch, epsilon)

    parts = _call(emitter, node, expression, data)
    emitter.set_blocked(node.outputs[0], _applied(emitter, node, data, parts))
    for value, part in zip(node.outputs[1:], parts[::2], strict=False):
        emitter.set_blocked(value, part)


def emit_extrema(emitter: Emitter, node: Node) -> None:
    """The minimum and the maximum of all elements."""
    data = node.args[0]
    view = emitter.reshape(emitter.as_plain(data), (prod(data.dims),))
    record, lanes = CallRecord(node.layer, "min+max"), processor(emitter.machine).lanes
    found = emitter.call(lambda x: extrema(x, lanes), [view], record, opaque=True)
    emitter.give(node, found, record)


def standardize_plain(emitter: Emitter, node: Node) -> None:
    """Standardize plain tensors over rows, over the channels of each pixel, or over the batch."""
    attrs, dims = node.attrs, node.outputs[0].dims
    if attrs["kind"] == "batch":
        _standardize_batch(emitter, node)
        return
    epsilon, data = attrs["epsilon"], emitter.as_plain(node.args[0])
    if attrs["kind"] == "channels":
        view = emitter.reshape(data, (*dims, 1))
        moments = _call(emitter, node, lambda x: channel_moments(x, dims[1], epsilon), view)
        shape = (dims[0], 1, *dims[2:])
        parts = [emitter.reshape(moment, shape) for moment in moments]
        emitter.plain[node.output] = _applied(emitter, node, data, parts)
        return
    rows = attrs["rows"]
    view = emitter.reshape(data, (rows, prod(dims) // rows))
    moments = _call(emitter, node, _row_moments(emitter, view, epsilon), view)
    # leading axes of the operand that count the rows: later operators keep its shape
    counted = [axis + 1 for axis, size in enumerate(accumulate(dims, mul)) if size == rows]
    if rows == 1 or counted:
        outer = dims[: counted[0]] if counted else ()
        shape = (*outer, *(1,) * (len(dims) - len(outer)))
        parts = [emitter.reshape(moment, shape) for moment in moments]
        emitter.plain[node.output] = _applied(emitter, node, data, parts)
    else:
        parts = [emitter.reshape(moment, (rows, 1)) for moment in moments]
        applied = _applied(emitter, node, view, parts)
        emitter.plain[node.output] = emitter.reshape(applied, dims, node.layer)


def _row_moments(emitter: Emitter, view: RelaxExpr, epsilon: float) -> _Moments:
    """The function for rows of this shape."""
    rows, size = (int(extent) for extent in view.ty.shape)
    lanes = emitter.row_lanes
    if lanes and size > 1 and are_short(rows, size, lanes, passes=2):
        mark = row_transposition(size)
        return lambda x: short_row_moments(x, epsilon, lanes, mark)
    return lambda x: row_moments(x, epsilon)


def _standardize_batch(emitter: Emitter, node: Node) -> None:
    dims, epsilon, data = (
        node.outputs[0].dims,
        node.attrs["epsilon"],
        emitter.as_plain(node.args[0]),
    )
    view = emitter.reshape(data, (*dims[:2], prod(dims[2:])))
    moments = _call(emitter, node, lambda x: _used(node, batch_moments(x, epsilon)), view)
    shape = (1, dims[1], *(1,) * (len(dims) - 2))
    parts = [emitter.reshape(moment, shape) for moment in moments]
    emitter.plain[node.outputs[0]] = _applied(emitter, node, data, parts)
    for value, part in zip(node.outputs[1:], parts[::2], strict=False):
        emitter.plain[value] = part


def _used(node: Node, moments: list[Tensor]) -> list[Tensor]:
    """Mean and inverse deviation, and the variance where the node has it as a result."""
    return moments[: max(2, len(node.outputs))]


def _call(emitter: Emitter, node: Node, expression: _Moments, data: RelaxExpr) -> list[RelaxExpr]:
    """All statistics by one function."""
    record = CallRecord(node.layer, "moments", flops=4 * prod(node.outputs[0].dims))
    results = emitter.call(expression, [data], record, opaque=True)
    return emitter.parts(results, max(2, len(node.outputs)), record)


def _applied(emitter: Emitter, node: Node, data: RelaxExpr, parts: list[RelaxExpr]) -> RelaxExpr:
    record = CallRecord(node.layer, "standardise")
    centered = emitter.bind(relax.op.subtract(data, parts[0]), record)
    return emitter.bind(relax.op.multiply(centered, parts[1]), record)
